package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	mountv3 "github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is a server and a client's machine. As newSetup makes it, all is well.
type setup struct {
	settings rpcrdma.Settings
	handler  oncrpc.Handler                        // of the listener
	mount    oncrpc.Handler                        // of MOUNT over TCP
	bind     oncrpc.Handler                        // rpcbind; nil: there is none
	provider func(rdmacm.Provider) rdmacm.Provider // around the listener's
	listen   func(t *testing.T) (address string)   // in place of the listener
	cfg      Config
}

func newSetup(t *testing.T) *setup {
	t.Helper()
	server, err := nfs.New(nfs.Config{Export: nfs.Export{Path: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	now := time.Now()
	s := &setup{settings: rpcrdma.DefaultSettings(), handler: server, mount: server}
	s.bind = portmapper(func() uint32 { return uint32(s.cfg.MountPort) })
	s.cfg = Config{
		Host: "127.0.0.1", Provider: "softiwarp", Timeout: 10 * time.Second,
		Daemon: func(context.Context, netip.Addr) (*Daemon, error) {
			return &Daemon{Listener: "nfs", Now: now, Invalidates: true}, nil
		},
		Machine: Machine{
			Root: fstest.MapFS{
				"sys/module/rpcrdma/refcnt":               {Data: []byte("0\n")},
				"sys/class/infiniband/siw0/ports/1/state": {Data: []byte("4: ACTIVE\n")},
			},
			Release:  "6.1.0-13-amd64",
			LookPath: func(program string) (string, error) { return "/sbin/" + program, nil },
			Now:      func() time.Time { return now },
			MTU:      func(netip.Addr) (string, int) { return "eth0", 9000 },
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				a, err := netip.ParseAddr(host)
				return []netip.Addr{a}, err
			},
			Dial: dialing(true),
		},
	}
	return s
}

// dialing is a Machine's Dial, whose ports count as reserved or not.
func dialing(reserved bool) func(context.Context, string) (net.Conn, bool, error) {
	return func(ctx context.Context, address string) (net.Conn, bool, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "tcp", address)
		return nc, reserved, err
	}
}

// portmapper answers GETPORT with the port that a function gives.
func portmapper(port func() uint32) oncrpc.Handler {
	return handlerFunc(func(call *oncrpc.Call, reply *oncrpc.Reply) error {
		if call.Program != portmapProgram || call.Procedure != portmapGetPort {
			return &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
		}
		reply.Stream = xdr.AppendUint32(reply.Stream, port())
		return nil
	})
}

type handlerFunc func(*oncrpc.Call, *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(_ context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return f(call, reply)
}

// start starts what the setup has, and fills in the addresses.
func (s *setup) start(t *testing.T) {
	t.Helper()
	if s.listen == nil {
		s.listen = s.serve
	}
	if address := s.listen(t); s.cfg.Port == "" {
		_, s.cfg.Port, _ = net.SplitHostPort(address)
	}
	port := serveTCP(t, s.mount)
	if s.cfg.MountPort == 0 && s.bind != nil {
		s.cfg.Machine.RPCBind = strconv.Itoa(int(serveTCP(t, portmapper(func() uint32 { return uint32(port) }))))
	} else if s.bind == nil {
		s.cfg.Machine.RPCBind = "1" // nobody listens on tcpmux
	}
}

func (s *setup) serve(t *testing.T) string {
	t.Helper()
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	provider := refereetest.Around(t, p)
	if s.provider != nil {
		provider = s.provider(p)
	}
	d := dataplane.New(dataplane.Config{Resolver: func(dataplane.ConnKey) *rpcrdma.Settings { return &s.settings }})
	listener, err := d.PrepareListener(t.Context(), dataplane.ListenerConfig{
		Name: "nfs", Provider: provider, Address: "127.0.0.1:0", Service: "export", Handler: s.handler,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	d.Start()
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = d.Shutdown(ended) // cuts off what hangs
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return listener.Info().Address.String()
}

// serveTCP serves ONC RPC over TCP until the test has ended.
func serveTCP(t *testing.T, h oncrpc.Handler) uint16 {
	t.Helper()
	l := listenTCP(t)
	s := rpctcp.NewServer(rpctcp.Config{Handler: h})
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		serving.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// raw listens in place of RDMA and does f with each connection.
func raw(f func(net.Conn)) func(*testing.T) string {
	return func(t *testing.T) string {
		l := listenTCP(t)
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				serving.Go(func() { f(c); c.Close() })
			}
		})
		t.Cleanup(func() {
			l.Close()
			serving.Wait()
		})
		return l.Addr().String()
	}
}

// wrapped is a provider whose listeners' connections are another's.
type wrapped struct {
	rdmacm.Provider
	id func(rdmacm.ID) rdmacm.ID
}

func (w wrapped) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := w.Provider.Listen(ctx, address)
	return wrappedListener{l, w.id}, err
}

type wrappedListener struct {
	rdmacm.Listener
	id func(rdmacm.ID) rdmacm.ID
}

func (l wrappedListener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	id, err := l.Listener.GetRequest(ctx)
	if err == nil {
		id = l.id(id)
	}
	return id, err
}

// mute accepts without private data.
type mute struct{ rdmacm.ID }

func (m mute) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	p.PrivateData = nil
	return m.ID.Accept(ctx, p)
}

// refusing rejects every connection.
type refusing struct {
	rdmacm.ID
	why string
}

func (r refusing) Accept(ctx context.Context, _ rdmacm.ConnParam) error {
	_ = r.Reject(ctx, []byte(r.why))
	return errors.New("rejected")
}

// status answers MNT with one.
func status(next oncrpc.Handler, s mountv3.Mountstat3) oncrpc.Handler {
	return forwardBut(next, mountMnt, func(reply *oncrpc.Reply) { reply.Stream = xdr.AppendUint32(reply.Stream, uint32(s)) })
}

func forwardBut(next oncrpc.Handler, procedure uint32, answer func(*oncrpc.Reply)) oncrpc.Handler {
	return contextFunc(func(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
		if call.Program == mountProgram && call.Procedure == procedure {
			answer(reply)
			return nil
		}
		return next.ServeRPC(ctx, call, reply)
	})
}

type contextFunc func(context.Context, *oncrpc.Call, *oncrpc.Reply) error

func (f contextFunc) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return f(ctx, call, reply)
}

// TestDoctor breaks one thing at a time: the doctor names that one, and nothing
// else unless it follows from it.
func TestDoctor(t *testing.T) {
	silent := func(c net.Conn) { _, _ = c.Read(make([]byte, 1<<10)); _, _ = c.Read(make([]byte, 1)) }
	for _, c := range []struct {
		name    string
		breakIt func(*setup)
		check   string // that tells, "" for none
		result  Result
		reason  string
		remedy  string
	}{
		{"nothing", func(*setup) {}, "", OK, "", ""},
		{"name", func(s *setup) { s.cfg.Host = "nowhere.invalid" }, "host name", Failed, "nowhere.invalid has no address", "IP address"},
		{"port", func(s *setup) { s.cfg.Port = "0" }, "host name", Failed, `"0" is no port`, DefaultPort},
		{"nobody listens", func(s *setup) { s.cfg.Port = "1" }, "tcp", Failed, "nothing listens on 127.0.0.1:1", "start the server"},
		{"small MTU", func(s *setup) { s.cfg.Machine.MTU = func(netip.Addr) (string, int) { return "eth0", 1280 } }, "path mtu", Warning, "eth0 has an MTU of 1280", "ip link set eth0"},
		{"no answer", func(s *setup) { s.listen, s.cfg.Timeout = raw(silent), time.Second }, "mpa", Failed, "does not answer the MPA request", "no iWARP port"},
		{"not RDMA", func(s *setup) {
			s.listen = raw(func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")); silent(c) })
		}, "mpa", Failed, "the answer is not MPA's", "no iWARP port"},
		{"hangs up", func(s *setup) { s.listen = raw(func(c net.Conn) { _, _ = c.Read(make([]byte, 20)) }) }, "mpa", Failed, "closed the connection", "log"},
		{"rejects", func(s *setup) {
			s.provider = func(p rdmacm.Provider) rdmacm.Provider {
				return wrapped{p, func(id rdmacm.ID) rdmacm.ID { return refusing{id, ""} }}
			}
		}, "mpa", Failed, "rejects connections", "rdmactl listeners list"},
		{"rejects with a reason", func(s *setup) {
			s.provider = func(p rdmacm.Provider) rdmacm.Provider {
				return wrapped{p, func(id rdmacm.ID) rdmacm.ID { return refusing{id, "all connections are in use"} }}
			}
		}, "mpa", Failed, "rejects connections from this machine: all connections are in use", "rdmactl listeners list"},
		{"no private data", func(s *setup) {
			s.provider = func(p rdmacm.Provider) rdmacm.Provider {
				return wrapped{p, func(id rdmacm.ID) rdmacm.ID { return mute{id} }}
			}
		}, "mpa", Warning, "no RPC-over-RDMA private data", "RFC 8797"},
		{"version 2 alone", func(s *setup) { s.settings.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtV2Only }, "rpc", Failed, "version 2 alone", "extensions.v2=on"},
		{"no place for version 2", func(s *setup) {
			var n atomic.Int32
			s.provider = func(p rdmacm.Provider) rdmacm.Provider {
				return wrapped{p, func(id rdmacm.ID) rdmacm.ID {
					if n.Add(1) == 3 { // after those of mpa and connect
						return refusing{id, ""}
					}
					return id
				}}
			}
		}, "version 2", Skipped, "rejected the connection", ""},
		{"no NFS", func(s *setup) { s.handler = echo.New() }, "rpc", Failed, "PROG_UNAVAIL", "rdmactl services list"},
		{"small receives", func(s *setup) { s.settings.InlineReceiveSize = 1024 }, "inline sizes", Warning, "calls up to 1024 bytes", "inline.receive_size=4KiB"},
		{"small sends", func(s *setup) { s.settings.InlineSendMax = 1024 }, "inline sizes", Warning, "replies up to 1024", "inline.send_max=4KiB"},
		{"few credits", func(s *setup) { s.settings.CreditsMax, s.settings.CreditsMin = 2, 1 }, "credits", Warning, "the server grants 2", "credits.max=64"},
		{"no invalidation", func(s *setup) { s.settings.RemoteInvalidationAccept = false }, "remote invalidation", Warning, "does not offer it", "remote_invalidation.accept=on"},
		{"unused invalidation", func(s *setup) {
			s.cfg.Daemon = func(context.Context, netip.Addr) (*Daemon, error) {
				return &Daemon{Listener: "nfs", Now: s.cfg.Machine.Now()}, nil
			}
		}, "remote invalidation", Warning, "may invalidate the client's memory and does not", "--scope listener/nfs"},
		{"export unknown", func(s *setup) { s.cfg.Export = "/other" }, "export", Failed, "/other is not exported", "exported is /export"},
		{"not allowed", func(s *setup) { s.mount = status(s.mount, mountv3.MNT3ERR_ACCES) }, "export", Failed, "this machine may not mount /export", "allow and deny"},
		{"no reserved port", func(s *setup) {
			s.mount, s.cfg.Machine.Dial = status(s.mount, mountv3.MNT3ERR_ACCES), dialing(false)
		}, "export", Warning, "to ports above 1023", "as root"},
		{"no exports", func(s *setup) {
			s.mount = forwardBut(s.mount, mountExport, func(r *oncrpc.Reply) { r.Stream = xdr.AppendUint32(r.Stream, 0) })
		}, "export", Failed, "exports nothing", "configure an export"},
		{"clock", func(s *setup) {
			now := s.cfg.Machine.Now
			s.cfg.Machine.Now = func() time.Time { return now().Add(time.Minute) }
		}, "clock", Warning, "1m0s apart", "chrony"},
		{"thresholds", func(s *setup) {
			s.cfg.Daemon = func(context.Context, netip.Addr) (*Daemon, error) {
				return &Daemon{Listener: "nfs", Now: s.cfg.Machine.Now(), Invalidates: true, Advice: []Advice{{"rdmactl settings set inline.send_max=8KiB", "replies of 5000 bytes"}}}, nil
			}
		}, "thresholds", Warning, "replies of 5000 bytes", "inline.send_max=8KiB"},
		{"no mount.nfs", func(s *setup) {
			s.cfg.Machine.LookPath = func(string) (string, error) { return "", errors.New("not found") }
		}, "mount.nfs", Failed, "no mount.nfs", "nfs-common"},
		{"no module", func(s *setup) { delete(s.cfg.Machine.Root.(fstest.MapFS), "sys/module/rpcrdma/refcnt") }, "kernel module", Failed, "no module rpcrdma", "modprobe rpcrdma"},
		{"no device", func(s *setup) { delete(s.cfg.Machine.Root.(fstest.MapFS), "sys/class/infiniband/siw0/ports/1/state") }, "rdma device", Failed, "no RDMA device", "rdma link add siw0"},
		{"port down", func(s *setup) {
			s.cfg.Machine.Root.(fstest.MapFS)["sys/class/infiniband/siw0/ports/1/state"] = &fstest.MapFile{Data: []byte("1: DOWN\n")}
		}, "rdma device", Failed, "siw0 port 1", "ip link set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSetup(t)
			c.breakIt(s)
			s.start(t)
			report, err := Run(t.Context(), &s.cfg)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, f := range report.Checks {
				if f.Name == c.check {
					found = true
					if f.Result != c.result || !strings.Contains(f.Reason, c.reason) || !strings.Contains(f.Remedy, c.remedy) {
						t.Errorf("%+v, want %s, %q and %q", f, c.result, c.reason, c.remedy)
					}
					continue
				}
				follows := found && c.result == Failed && f.Result == Skipped
				sizes := c.name == "no private data" && f.Result == Warning // its consequences
				if f.Result != OK && !follows && !sizes {
					t.Errorf("%+v, want nothing else", f)
				}
			}
			if healthy := c.result != Failed; report.Healthy != healthy {
				t.Errorf("healthy %v, want %v", report.Healthy, healthy)
			}
			// The lock manager that rpcbind knows is not rdmad's.
			if mount := "mount -t nfs -o vers=3,proto=rdma,port=" + s.cfg.Port + ",nolock 127.0.0.1:/export /mnt"; c.check == "" && report.Mount != mount {
				t.Errorf("%q, want %q", report.Mount, mount)
			}
		})
	}
}

// TestNoRPCBind: without rpcbind a mount needs more options.
func TestNoRPCBind(t *testing.T) {
	s := newSetup(t)
	s.bind = nil
	s.start(t)
	s.cfg.MountPort = serveTCP(t, s.mount)
	report, err := Run(t.Context(), &s.cfg)
	if err != nil || !report.Healthy || !strings.Contains(report.Mount, ",mountport="+strconv.Itoa(int(s.cfg.MountPort))+",mountproto=tcp,nolock ") {
		t.Errorf("%v, %+v", err, report)
	}
	s.cfg.MountPort = 0
	if report, err = Run(t.Context(), &s.cfg); err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Checks {
		if f.Name == "rpcbind" && (f.Result != Warning || !strings.Contains(f.Remedy, "mountport=20048")) {
			t.Errorf("%+v", f)
		}
	}
}

// TestNoLockManager: rdmad's own NFS server has none, so locks stay on the client.
func TestNoLockManager(t *testing.T) {
	s := newSetup(t)
	s.start(t)
	mount := serveTCP(t, s.mount)
	s.cfg.Machine.RPCBind = strconv.Itoa(int(serveTCP(t, handlerFunc(func(call *oncrpc.Call, reply *oncrpc.Reply) error {
		port := uint32(0)
		if d := xdr.NewDecoder(call.Args.Stream); d.Uint32() == mountProgram {
			port = uint32(mount)
		}
		reply.Stream = xdr.AppendUint32(reply.Stream, port)
		return nil
	}))))
	report, err := Run(t.Context(), &s.cfg)
	if want := "mount -t nfs -o vers=3,proto=rdma,port=" + s.cfg.Port + ",nolock 127.0.0.1:/export /mnt"; err != nil || !report.Healthy || report.Mount != want {
		t.Errorf("%v, %+v, want %q", err, report, want)
	}
}

// TestTwoFamilies: mount takes a name's IPv4 address with proto=rdma, so the doctor examines that one.
func TestTwoFamilies(t *testing.T) {
	s := newSetup(t)
	s.cfg.Host, s.cfg.Daemon = "nfs.example.net", nil
	s.cfg.Machine.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	s.start(t)
	report, err := Run(t.Context(), &s.cfg)
	if want := "mount -t nfs -o vers=3,proto=rdma,port=" + s.cfg.Port + " nfs.example.net:/export /mnt"; err != nil || !report.Healthy || report.Mount != want {
		t.Errorf("%v, %+v, want %q", err, report, want)
	}
}

// TestMountCommand: mount and the shell understand it for all addresses and names.
func TestMountCommand(t *testing.T) {
	for _, c := range []struct{ host, addr, path, want string }{
		{"nfs.example.net", "192.0.2.7", "/srv/a-b_1", "proto=rdma,port=20049 nfs.example.net:/srv/a-b_1 /mnt"},
		{"nfs.example.net", "2001:db8::7", "/a", "proto=rdma6,port=20049 nfs.example.net:/a /mnt"},
		{"2001:db8::7", "2001:db8::7", "/a", "proto=rdma6,port=20049 '[2001:db8::7]:/a' /mnt"},
		{"fe80::7%eth0", "fe80::7%eth0", "/a", "proto=rdma6,port=20049 '[fe80::7%eth0]:/a' /mnt"},
		{"192.0.2.7", "192.0.2.7", "/my data", "proto=rdma,port=20049 '192.0.2.7:/my data' /mnt"},
		{"192.0.2.7", "192.0.2.7", "/it's;reboot", `proto=rdma,port=20049 '192.0.2.7:/it'\''s;reboot' /mnt`},
	} {
		v := visit{Config: &Config{Host: c.host, Port: "20049"}, addr: netip.MustParseAddr(c.addr)}
		if got := v.command("3", "", c.path); got != "mount -t nfs -o vers=3,"+c.want {
			t.Errorf("%s", got)
		}
	}
}

// TestSlowAnswer: the time that the control plane takes to answer is no difference of the clocks.
func TestSlowAnswer(t *testing.T) {
	s := newSetup(t)
	now := s.cfg.Machine.Now()
	s.cfg.Machine.Now = func() time.Time { return now }
	s.cfg.Daemon = func(context.Context, netip.Addr) (*Daemon, error) {
		d := &Daemon{Listener: "nfs", Now: now.Truncate(time.Second), Invalidates: true}
		now = now.Add(time.Minute)
		return d, nil
	}
	s.start(t)
	report, err := Run(t.Context(), &s.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Checks {
		if f.Name == "clock" && f.Result != OK {
			t.Errorf("%+v", f)
		}
	}
}

// TestNFS4: version 4 needs no MOUNT.
func TestNFS4(t *testing.T) {
	s := newSetup(t)
	s.handler = handlerFunc(func(call *oncrpc.Call, _ *oncrpc.Reply) error {
		if call.Version != 4 {
			return &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: 4, High: 4}
		}
		return nil
	})
	s.start(t)
	report, err := Run(t.Context(), &s.cfg)
	if want := "mount -t nfs -o vers=4,proto=rdma,port=" + s.cfg.Port + " 127.0.0.1:/ /mnt"; err != nil || !report.Healthy || report.Mount != want {
		t.Errorf("%v, %+v, want %q", err, report, want)
	}
}

// TestOnlyNFS4: a server with both versions, whose MOUNT cannot be reached, can be mounted with version 4.
func TestOnlyNFS4(t *testing.T) {
	s := newSetup(t)
	s.handler = handlerFunc(func(*oncrpc.Call, *oncrpc.Reply) error { return nil })
	s.start(t)
	s.cfg.MountPort = 1 // nobody listens on tcpmux
	report, err := Run(t.Context(), &s.cfg)
	if want := "mount -t nfs -o vers=4,proto=rdma,port=" + s.cfg.Port + " 127.0.0.1:/ /mnt"; err != nil || !report.Healthy || report.Mount != want {
		t.Errorf("%v, %+v, want %q", err, report, want)
	}
}

// TestOtherProgram: a program other than NFS has no exports.
func TestOtherProgram(t *testing.T) {
	s := newSetup(t)
	s.handler, s.cfg.Program = echo.New(), &target.Echo
	s.start(t)
	report, err := Run(t.Context(), &s.cfg)
	if err != nil || !report.Healthy || report.Mount != "" {
		t.Errorf("%v, %+v", err, report)
	}
	for _, f := range report.Checks {
		if skipped := f.Name == "rpcbind" || f.Name == "export"; skipped != (f.Result == Skipped) {
			t.Errorf("%+v", f)
		}
	}
}

// TestExportsAreBounded: a list without an end, or one that is garbage, is an error.
func TestExportsAreBounded(t *testing.T) {
	var endless []byte
	for range maxExports + 1 {
		endless = xdr.AppendBool(xdr.AppendString(xdr.AppendBool(endless, true), "/a"), false)
	}
	for name, list := range map[string][]byte{
		"endless": endless, "cut": endless[:6], "long": xdr.AppendString(xdr.AppendBool(nil, true), strings.Repeat("a", 2000)), "no bool": {0, 0, 0, 7},
	} {
		if paths, err := exports(list); err == nil {
			t.Errorf("%s: %d paths, want an error", name, len(paths))
		}
	}
}

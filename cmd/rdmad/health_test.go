package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/rpcbind/rpcbindtest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// The directory of an export disappears, is replaced, and returns.
func TestExportCondition(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	makeDirectory(t, disk)
	p := admit(t, dir, `
services: [{name: disk, nfs: {path: DIR/disk}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: disk}]
`)
	p.expect("disk", conditions.ExportServed)
	p.expect("state", conditions.StateWritable)
	p.expect("steady", conditions.ListenerUp)
	p.expect("disk", conditions.ServiceUp)
	p.expect("audit", conditions.AuditWritable)
	p.well()
	p.must(os.Rename(disk, disk+".away"))
	p.expect("disk", conditions.ExportMissing)
	p.must(os.Mkdir(disk, 0o700))
	p.expect("disk", conditions.ExportReplaced)
	p.must(os.Remove(disk))
	p.must(os.Rename(disk+".away", disk))
	p.expect("disk", conditions.ExportServed)
	p.well()
}

// The state directory disappears and returns.
func TestStateCondition(t *testing.T) {
	p := admit(t, t.TempDir(), echoListener)
	state := filepath.Join(p.dir, "state")
	p.expect("state", conditions.StateWritable)
	p.must(os.Rename(state, state+".away"))
	p.expect("state", conditions.StateUnusable)
	p.must(os.Mkdir(state, 0o700))
	p.expect("state", conditions.StateReplaced)
	p.must(os.Remove(state))
	p.must(os.Rename(state+".away", state))
	p.expect("state", conditions.StateWritable)
	p.well()
}

// A change while the state directory is away: nobody knows what the disk holds, also when the
// directory is back.
func TestStateInDoubt(t *testing.T) {
	p := admit(t, t.TempDir(), echoListener)
	state := filepath.Join(p.dir, "state")
	p.expect("state", conditions.StateWritable)
	p.must(os.Rename(state, state+".away"))
	change := &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{SendMax: new(uint32(2048))}}}
	settings := rdmadv1.NewSettingsServiceClient(p.client)
	if _, err := settings.SetSettings(t.Context(), change); err == nil {
		t.Fatal("the change was stored")
	}
	p.must(os.Rename(state+".away", state))
	p.expect("state", conditions.StateInDoubt)
	if _, err := settings.SetSettings(t.Context(), change); err == nil || !strings.Contains(err.Error(), "restart rdmad") {
		t.Errorf("%v", err)
	}
}

// server is an ONC RPC server on TCP that can be stopped and started.
type server struct {
	t       *testing.T
	address string
	stop    func()
}

func startServer(t *testing.T, address string) *server {
	t.Helper()
	l := have(net.Listen("tcp", address))(t)
	s := rpctcp.NewServer(rpctcp.Config{Handler: echo.New()})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	return &server{t: t, address: l.Addr().String(), stop: func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}}
}

// The server behind forward disappears, listens without an answer, and returns.
func TestUpstreamCondition(t *testing.T) {
	s := startServer(t, keepPort(t))
	p := admit(t, t.TempDir(), `
services: [{name: nas, forward: {address: "`+s.address+`"}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: nas}]
`)
	p.expect("nas", conditions.UpstreamAnswers)
	p.well()
	s.stop()
	p.expect("nas", conditions.UpstreamGone)
	s = startServer(t, s.address)
	p.expect("nas", conditions.UpstreamAnswers)
	s.stop()
	l, err := net.Listen("tcp", s.address)
	p.must(err)
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close() // without a word
		}
	}()
	p.expect("nas", conditions.UpstreamSilent)
	l.Close()
	<-accepted
	s = startServer(t, s.address)
	defer s.stop()
	p.expect("nas", conditions.UpstreamAnswers)
	p.well()
}

// The target of a connector disappears and returns.
func TestTargetCondition(t *testing.T) {
	far := startHere(t, t.TempDir(), "")
	target := far.listener("steady").Live.Address.String()
	p := admit(t, t.TempDir(), echoListener+`
connectors: [{name: out, listen: "127.0.0.1:0", provider: softiwarp, target: "`+target+`"}]
`)
	p.expect("out", conditions.ConnectorUp)
	p.expect("out", conditions.TargetAnswers)
	p.well()
	far.end()
	p.expect("out", conditions.TargetGone)
	s := startServer(t, target) // another protocol
	p.expect("out", conditions.TargetGone)
	s.stop()
	again := startHere(t, t.TempDir(), fmt.Sprintf("  - {name: moved, provider: softiwarp, address: %q, service: test}\n", target))
	defer again.end()
	p.expect("out", conditions.TargetAnswers)
	p.well()
}

// A lack of memory or of file descriptors of the process says nothing about a peer.
func TestProbeWithoutMeans(t *testing.T) {
	c := conditions.TargetUnprobed
	for err, want := range map[error]*conditions.Reason{
		nil: conditions.TargetAnswers, errors.New("refused"): conditions.TargetGone, fmt.Errorf("dial: %w", offheap.ErrLimit): c,
		os.NewSyscallError("socket", syscall.EMFILE): c, os.NewSyscallError("socket", syscall.ENFILE): c,
		fmt.Errorf("dial: %w", &net.DNSError{Err: "dial udp: socket: " + syscall.EMFILE.Error(), Name: "server.test"}): c,
	} {
		probe := func(context.Context) (bool, error) { return false, err }
		if got, _ := peer(probe, c, conditions.TargetAnswers, conditions.TargetGone, conditions.TargetSilent)(t.Context()); got != want {
			t.Errorf("%v: %s", err, got.Name)
		}
	}
}

// An addition that can't be restored has failed, until it is removed.
func TestNotRestoredConditions(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	r.addDisk()
	r.end()
	disk := filepath.Join(dir, "disk")
	must(t, os.Rename(disk, disk+".away"))
	p := admit(t, dir, echoListener)
	p.expect("disk", conditions.ServiceFailed)
	p.expect("disk", conditions.ListenerFailed)
	if _, err := p.manager.Listeners.Remove(t.Context(), "disk", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.manager.Services.Remove(t.Context(), "disk", 0); err != nil {
		t.Fatal(err)
	}
	if all := p.health.known.List(); all.Find(conditions.Listener, "disk") != nil || all.Find(conditions.Service, "disk") != nil {
		t.Errorf("what is gone has conditions: %v", all)
	}
	p.expect("steady", conditions.ListenerUp)
}

// A service of the file that an operator changed, and that can't be had so, has failed with its
// listener. The remedy brings both back.
func TestNotRestoredConditionOfTheFile(t *testing.T) {
	dir := t.TempDir()
	file := `
services: [{name: disk, nfs: {path: DIR/disk}}]
listeners: [{name: disk, provider: softiwarp, address: "127.0.0.1:0", service: disk}]
`
	makeDirectory(t, filepath.Join(dir, "disk"))
	away := filepath.Join(dir, "away")
	makeDirectory(t, away)
	t.Run("change", func(t *testing.T) {
		p := admit(t, dir, file)
		_, err := rdmadv1.NewListenerServiceClient(p.client).UpdateService(t.Context(), &rdmadv1.UpdateServiceRequest{
			Name: "disk", Nfs: &rdmadv1.NfsService{Path: away},
		})
		p.must(err)
	})
	must(t, os.Remove(away))
	p := admit(t, dir, file)
	p.expect("disk", conditions.ServiceFailed)
	p.expect("disk", conditions.ListenerFailed)
	_, err := rdmadv1.NewListenerServiceClient(p.client).UpdateService(t.Context(), &rdmadv1.UpdateServiceRequest{
		Name: "disk", Unset: []string{"*"}, // rdmactl services unset
	})
	p.must(err)
	p.expect("disk", conditions.ServiceUp)
	p.expect("disk", conditions.ListenerUp)
	p.well()
}

// An operator changes a service of the file. Then the file gives the service another kind. The operator's
// changes can still be taken back.
func TestUnsetOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	makeDirectory(t, filepath.Join(dir, "disk"))
	p := admit(t, dir, "services: [{name: disk, nfs: {path: DIR/disk}}]\n")
	c := rdmadv1.NewListenerServiceClient(p.client)
	_, err := c.UpdateService(t.Context(), &rdmadv1.UpdateServiceRequest{Name: "disk", Nfs: &rdmadv1.NfsService{ReadOnly: true}})
	p.must(err)
	p.must(reconfigure(p.daemon, p.parse("services: [{name: disk, echo: {}}]\n"), time.Second))
	for range 2 { // again, there is nothing to take back
		res, err := c.UpdateService(t.Context(), &rdmadv1.UpdateServiceRequest{Name: "disk", Unset: []string{"*"}})
		if s := res.GetService(); err != nil || s.GetKind() != "echo" || len(s.GetChanged()) != 0 {
			t.Errorf("%v, %v", s, err)
		}
	}
	p.well()
}

// The file is refused for its errors, then for a port in use, and then applied.
func TestReloadCondition(t *testing.T) {
	dir := t.TempDir()
	p := admit(t, dir, echoListener)
	p.expect("configuration", conditions.ReloadLoaded)
	p.health.refused(fmt.Errorf("rdmad.yaml:3: listeners: one\nrdmad.yaml:4: two"))
	p.expect("configuration", conditions.ReloadRefused)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	p.must(err)
	next := echoListener + "connectors: [{name: out, listen: \"" + taken.Addr().String() + "\", provider: softiwarp, target: \"127.0.0.1:9\"}]\n"
	p.health.refused(reconfigure(p.daemon, p.parse(next), time.Second))
	p.expect("configuration", conditions.ReloadBlocked)
	taken.Close()
	p.must(reconfigure(p.daemon, p.parse(next), time.Second))
	p.expect("configuration", conditions.ReloadLoaded)
	p.expect("out", conditions.TargetGone)
	p.must(reconfigure(p.daemon, p.parse(echoListener), time.Second))
	p.expect("configuration", conditions.ReloadLoaded)
	p.health.reloaded("rdmad.yaml", []string{"control.listen", "state.path"})
	p.expect("configuration", conditions.ReloadRestart)
	if text := p.health.known.List().Find(conditions.Reload, "configuration").Message; text != "rdmad.yaml: control.listen, state.path" {
		t.Error(text)
	}
	p.health.reloaded("rdmad.yaml", nil)
	p.expect("configuration", conditions.ReloadLoaded)
	if all := p.health.known.List(); all.Find(conditions.Target, "out") != nil {
		t.Errorf("a connector that is gone has a target: %v", all)
	}
	p.well()
}

// The disk of the state directory fills up. Changes are refused until there is room, because
// they can't be recorded.
func TestPrivilegedAuditCondition(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	must(t, os.Mkdir(state, 0o700))
	must(t, unix.Mount("tmpfs", state, "tmpfs", 0, "size=80m"))
	t.Cleanup(func() {
		if err := unix.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	p := admit(t, dir, echoListener)
	p.expect("audit", conditions.AuditWritable)
	p.expect("state", conditions.StateWritable)
	fill := filepath.Join(state, "fill")
	change := func() error {
		_, err := rdmadv1.NewSettingsServiceClient(p.client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
			Settings: &rdmadv1.Settings{Ddp: &rdmadv1.DdpSettings{MinChunk: proto.Uint32(4096)}}, Comment: strings.Repeat("x", 256),
		})
		return err
	}
	f, err := os.Create(fill)
	p.must(err)
	_, err = f.Write(make([]byte, 81<<20))
	f.Close()
	if err == nil {
		t.Fatal("the disk is not full")
	}
	for range 50 { // the last page of the log may have room
		if err = change(); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("changes are made that can't be recorded")
	}
	p.expect("audit", conditions.AuditUnwritable)
	p.expect("state", conditions.StateFull)
	p.must(os.Remove(fill))
	p.expect("audit", conditions.AuditWritable)
	p.must(change())
	p.expect("state", conditions.StateWritable)
	p.well()
}

// rpcbind disappears, has another server's registration, and returns.
func TestRPCBindCondition(t *testing.T) {
	host := rpcbindtest.Isolate(t)
	if host == nil {
		return
	}
	p := admit(t, t.TempDir(), `
services: [{name: test, echo: {}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test, rpcbind: on}]
`)
	const name = "rpcbind"
	p.expect(name, conditions.RPCBindAway)
	d := host.Start(t)
	p.expect(name, conditions.RPCBindRegistered)
	p.well()
	d.Kill()
	again := func(listener string) { // has rpcbind asked now
		t.Helper()
		_, err := p.manager.Listeners.Add(t.Context(), spec.Listener{
			Name: listener, Provider: "softiwarp", Address: "127.0.0.1:0", Service: "disk", RPCBind: true,
		})
		p.must(err)
	}
	p.must(os.Mkdir(filepath.Join(p.dir, "disk"), 0o700))
	_, err := p.manager.Services.Add(t.Context(), spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: filepath.Join(p.dir, "disk")}}})
	p.must(err)
	again("nfs")
	p.expect(name, conditions.RPCBindAway)
	d = host.Start(t)
	p.expect(name, conditions.RPCBindRegistered)
	d.Kill()
	_, err = p.manager.Listeners.Remove(t.Context(), "nfs", 0)
	p.must(err)
	host.Start(t)
	other, err := rpcbind.New(rpcbind.Config{Registrations: []rpcbind.Registration{{
		Program: 100003, Version: 3, Transport: rpcbind.RDMA, Address: netip.MustParseAddrPort("127.0.0.1:9"),
	}}})
	p.must(err)
	other.Start()
	w := p.health.known.Watch() // a clock
	defer w.Close()
	for other.State().Err != nil || !other.State().Asked {
		w.Next(nil)
	}
	again("nfs")
	p.expect(name, conditions.RPCBindTaken)
	p.must(other.Close(t.Context()))
	_, err = p.manager.Listeners.Remove(t.Context(), "nfs", 0)
	p.must(err)
	p.expect(name, conditions.RPCBindRegistered)
	p.well()
}

func TestSummary(t *testing.T) {
	r := conditions.NewRegistry()
	r.Set(conditions.Finding{Name: "nfs", Reason: conditions.ListenerUp})
	if got := summary(r.List()); got != "healthy: 1 conditions are OK" {
		t.Errorf("got %q", got)
	}
	r.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamGone, Message: "connection\nrefused"})
	if got := summary(r.List()); got != "1 of 2 conditions are not OK: upstream/nas FAILED Unreachable: connection refused" || bytes.ContainsRune([]byte(got), '\n') {
		t.Errorf("got %q", got)
	}
}

// The memory that rdmad may have is nearly used up, until it may have more.
func TestMemoryCondition(t *testing.T) {
	p := admit(t, t.TempDir(), echoListener)
	p.expect("memory", conditions.MemoryFree)
	p.well()
	ballast := make([]byte, 64<<20)
	p.data.SetMemory(64 << 20)
	p.expect("memory", conditions.MemoryNearLimit)
	runtime.KeepAlive(ballast)
	p.data.SetMemory(1 << 30)
	p.expect("memory", conditions.MemoryFree)
	p.well()
}

// The limit is lowered below what is in use.
func TestMemoryConditionLowered(t *testing.T) {
	p := admit(t, t.TempDir(), echoListener)
	held, err := offheap.Alloc(400 << 20) // not written, so that no page of it is resident
	p.must(err)
	defer held.Free()
	p.data.SetMemory(256 << 20)
	p.expect("memory", conditions.MemoryNearLimit)
	if c := p.health.known.List().Find(conditions.Memory, "memory"); !strings.Contains(c.Message, "of 256 MiB") {
		t.Errorf("the message is %q", c.Message)
	}
}

// Nearly all files that the process may have open are open, until some are closed.
func TestDescriptorsCondition(t *testing.T) {
	p := admit(t, t.TempDir(), echoListener)
	p.expect("descriptors", conditions.DescriptorsFree)
	p.well()
	var before unix.Rlimit
	p.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	few := before
	few.Cur = 1024
	p.must(unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	var open []*os.File
	defer func() {
		for _, f := range open {
			f.Close()
		}
	}()
	for len(open) < 950 {
		f, err := os.Open(os.DevNull)
		p.must(err)
		open = append(open, f)
	}
	p.expect("descriptors", conditions.DescriptorsNearLimit)
	for _, f := range open {
		p.must(f.Close())
	}
	open = nil
	p.expect("descriptors", conditions.DescriptorsFree)
	p.well()
}

// TestEndAfterHungCheck: a check that hangs takes nothing of the time in which the control plane and the
// metrics end.
func TestEndAfterHungCheck(t *testing.T) {
	r := &running{t: t, dir: t.TempDir()}
	var log logtest.Log
	d, err := bind(t.Context(), r.parse(""), slog.New(slog.NewTextHandler(&log, nil)), nil)
	must(t, err)
	d.start()
	looks, answer := make(chan struct{}), make(chan struct{})
	d.health.prober.Keep([]conditions.Check{{
		Kind: conditions.State, Name: "hung", Every: time.Hour, Timeout: closeTimeout + time.Second,
		Look: func(context.Context) (*conditions.Reason, string) {
			close(looks)
			<-answer
			return conditions.StateWritable, ""
		},
	}})
	<-looks
	d.stop(time.Minute)
	close(answer)
	if strings.Contains(log.String(), "cut off") {
		t.Errorf("the log:\n%s", &log)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/interop/child"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestInTime: the limit begins when the context ends. giveUp may hang as well: then the end does not wait for it.
func TestInTime(t *testing.T) {
	const limit = time.Minute
	failure := errors.New("failure")
	for name, c := range map[string]struct {
		takes    time.Duration // work, after the end
		giveUp   time.Duration
		wantLate bool
	}{
		"in order":       {limit - 1, 0, false},
		"hangs":          {time.Hour, 0, true},
		"giving up, too": {time.Hour, time.Hour, true},
		"by itself":      {-limit, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				over := 2 * limit
				time.AfterFunc(over, cancel)
				gaveUp := false
				err := inTime(ctx, limit, func() error {
					time.Sleep(over + c.takes)
					return failure
				}, func() {
					gaveUp = true
					time.Sleep(c.giveUp)
				})
				if late := errors.As(err, new(*servingError)); late != c.wantLate || !late && err != failure { //nolint:errorlint // it is not wrapped
					t.Errorf("%v", err)
				}
				synctest.Wait()
				if gaveUp != c.wantLate {
					t.Errorf("gave up: %t", gaveUp)
				}
				time.Sleep(time.Hour) // all has ended
			})
		})
	}
}

// awaitDeath waits until a process has ended, but for threads that the kernel can't end: they wait in a file system.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	alive := func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if err != nil {
				continue // it has ended
			}
			if state := strings.TrimSpace(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]; !strings.ContainsRune("DZX", rune(state)) {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(startTimeout); alive(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("rdmad does not end")
		}
	}
}

// TestEndWhileCallsHang: rdmad ends while calls hang in a file system, and says which. Another one can start, though the
// kernel keeps threads of the first one.
func TestEndWhileCallsHang(t *testing.T) {
	t.Setenv(endVar, "5s")
	r := newRig(t)
	hung, well := filepath.Join(r.dir, "hung"), filepath.Join(r.dir, "well")
	makeDirectory(t, hung)
	makeDirectory(t, well)
	fs := have(mountHung(hung))(t)
	defer func() { must(t, fs.Close()) }()
	serve := func(control, metrics, path, tcp, nfs string) *process {
		must(t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), fmt.Appendf(nil, `
control: {listen: %q}
metrics: {listen: %q}
state: {path: state}
services: [{name: disk, nfs: {path: %q, tcp_listen: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, control, metrics, path, tcp, nfs), 0o600))
		return r.start("--drain-timeout", "0s")
	}
	p := serve(apart, apart, hung, apart, apart)
	tcp := have(rpctcp.Dial(t.Context(), p.addresses["tcp_disk"], rpctcp.ClientConfig{Cred: nfstest.User(0, 0)}))(t)
	defer tcp.Close()
	over := []nfstest.Files{nfstest.FilesOver(r.dial(p.addresses["nfs"]), 0, 0), {Carrier: nfstest.TCP{Client: tcp, Auth: nfstest.User(0, 0)}}}
	root := have(over[0].Mount(t.Context(), hung))(t)
	must(t, over[1].Getattr(t.Context(), root))
	must(t, fs.Hang())
	var calls sync.WaitGroup
	for _, c := range over {
		for range 2 {
			calls.Go(func() { _ = c.Getattr(t.Context(), root) })
		}
	}
	for have(fs.Waiting())(t) < 4 { // one may be a look at the export
		<-time.After(time.Millisecond)
	}
	must(t, p.signal("TERM"))
	awaitDeath(t, p.Pid())
	for _, line := range []string{
		`"level":"ERROR","msg":"ending at once: something hangs","waits_for":"calls in flight, `,
		`"level":"ERROR","msg":"connection does not end","conn":"1","listener":"nfs","server":"disk","peer":"[^"]*","calls":[12]}`,
		`"level":"ERROR","msg":"connection over TCP does not end","service":"disk","peer":"[^"]*","calls":[12]}`,
		`"level":"ERROR","msg":"calls hang in an export","service":"disk","path":"[^"]*/hung","calls":[34]}`,
	} {
		must(t, p.waitLog(regexp.MustCompile(line), 1))
	}
	t.Setenv(endVar, "")
	next := serve(p.addresses["control"], p.addresses["metrics"], well, p.addresses["tcp_disk"], p.addresses["nfs"])
	next.end(t, "TERM", 0)
	must(t, fs.Heal())
	if code := p.wait(); code != 1 {
		t.Errorf("exit code %d; log:\n%s", code, p.Log())
	}
	calls.Wait()
}

// TestEndWhileARequestHangs: another rdmad can use the state also if a request of the control plane waits for what hangs.
func TestEndWhileARequestHangs(t *testing.T) {
	t.Setenv(endVar, "1s")
	r := newRig(t)
	hung := filepath.Join(r.dir, "hung")
	makeDirectory(t, hung)
	fs := have(mountHung(hung))(t)
	defer func() { must(t, fs.Close()) }()
	serve := func(path string) *process {
		must(t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), fmt.Appendf(nil, `
control: {listen: %q}
metrics: {listen: ""}
state: {path: state}
services: [{name: disk, nfs: {path: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, apart, path, apart), 0o600))
		return r.start("--drain-timeout", "0s")
	}
	p := serve(hung)
	files := nfstest.FilesOver(r.dial(p.addresses["nfs"]), 0, 0)
	root := have(files.Mount(t.Context(), hung))(t)
	must(t, fs.Hang())
	var calls sync.WaitGroup
	calls.Go(func() { _ = files.Getattr(t.Context(), root) })
	for have(fs.Waiting())(t) < 2 { // one may be a look at the export
		calls.Go(func() { _ = files.Getattr(t.Context(), root) })
		<-time.After(10 * time.Millisecond)
	}
	conn := have(grpc.NewClient(p.addresses["control"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	listeners := rdmadv1.NewListenerServiceClient(conn)
	calls.Go(func() {
		_, _ = listeners.RemoveListener(t.Context(), &rdmadv1.RemoveListenerRequest{Name: "nfs", Deadline: durationpb.New(0)})
	})
	for have(listeners.ListListeners(t.Context(), &rdmadv1.ListListenersRequest{}))(t).GetListeners()[0].GetState() != rdmadv1.Listener_DRAINING {
		<-time.After(time.Millisecond)
	}
	must(t, p.signal("TERM"))
	awaitDeath(t, p.Pid())
	t.Setenv(endVar, "")
	serve("srv").end(t, "TERM", 0)
	must(t, fs.Heal())
	if code := p.wait(); code != 1 {
		t.Errorf("exit code %d; log:\n%s", code, p.Log())
	}
	calls.Wait()
}

// TestEndWhileAReloadHangs: the configuration file has become a pipe.
func TestEndWhileAReloadHangs(t *testing.T) {
	t.Setenv(endVar, "1ms")
	r := newRig(t)
	p := r.start("--drain-timeout", "0s")
	pipe, file := filepath.Join(r.dir, "pipe"), filepath.Join(r.dir, "rdmad.yaml")
	must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Rename(pipe, file)))
	w := have(os.OpenFile(file, os.O_WRONLY, 0))(t) // waits until rdmad reads
	defer w.Close()
	p.end(t, "TERM", 1)
	if line := `"msg":"ending at once: something hangs","waits_for":"a reload of the configuration"`; !strings.Contains(p.Log(), line) {
		t.Errorf("the log lacks %s:\n%s", line, p.Log())
	}
}

// TestEndWhileAReloadHangsInAFileSystem: another rdmad can use the addresses and the state, though the kernel keeps a thread
// of the first one.
func TestEndWhileAReloadHangsInAFileSystem(t *testing.T) {
	t.Setenv(endVar, "10s")
	r := newRig(t)
	hung, file := filepath.Join(r.dir, "hung"), filepath.Join(r.dir, "rdmad.yaml")
	makeDirectory(t, hung)
	fs := have(mountHung(hung))(t)
	defer func() { must(t, fs.Close()) }()
	serve := func(control, metrics, tcp, nfs string) *process {
		must(t, os.WriteFile(file, fmt.Appendf(nil, `
control: {listen: %q}
metrics: {listen: %q}
state: {path: state}
services: [{name: disk, nfs: {path: srv, tcp_listen: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, control, metrics, tcp, nfs), 0o600))
		return r.start("--drain-timeout", "0s")
	}
	p := serve(apart, apart, apart, apart)
	must(t, fs.Hang())
	link := filepath.Join(r.dir, "link")
	must(t, errors.Join(os.Symlink(filepath.Join(hung, hungFile), link), os.Rename(link, file)))
	for have(fs.Waiting())(t) == 0 {
		<-time.After(time.Millisecond)
	}
	must(t, p.signal("TERM"))
	awaitDeath(t, p.Pid())
	must(t, p.waitLog(regexp.MustCompile(`"msg":"ending at once: something hangs","waits_for":"a reload of the configuration"`), 1))
	must(t, os.Remove(file))
	t.Setenv(endVar, "")
	next := serve(p.addresses["control"], p.addresses["metrics"], p.addresses["tcp_disk"], p.addresses["nfs"])
	next.end(t, "TERM", 0)
	must(t, fs.Heal())
	if code := p.wait(); code != 1 {
		t.Errorf("exit code %d; log:\n%s", code, p.Log())
	}
}

// TestEndWithLongestDrain: rdmad ends in order also if the time of the drain leaves no room for a longer one.
func TestEndWithLongestDrain(t *testing.T) {
	p := newRig(t).start("--drain-timeout", time.Duration(math.MaxInt64).String())
	p.end(t, "TERM", 0)
}

// TestEndOfStartInAFileSystem: a start that waits for the file system of an export ends in order, also while nothing takes
// the log. Another rdmad can use the address and the state, though the kernel keeps a thread of the first one.
func TestEndOfStartInAFileSystem(t *testing.T) {
	for name, hang := range map[string]func(*hungFS) error{"look": (*hungFS).Hang, "second look": (*hungFS).HangAfterLook, "open": (*hungFS).HangStatfs} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(endVar, "10s")
			r := newRig(t)
			hung := filepath.Join(r.dir, "hung")
			makeDirectory(t, hung)
			fs := have(mountHung(hung))(t)
			defer func() { must(t, fs.Close()) }()
			must(t, hang(fs))
			configure := func(path string) {
				must(t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), fmt.Appendf(nil, `
control: {listen: "unix://%s/control"}
metrics: {listen: ""}
state: {path: state}
services: [{name: disk, nfs: {path: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, r.dir, path, apart), 0o600))
			}
			configure(hung)
			cmd, p := startMute(t, r.dir)
			bound := func() bool {
				_, err := os.Stat(filepath.Join(r.dir, "control"))
				return err == nil
			}
			for !bound() || have(fs.Waiting())(t) == 0 {
				<-time.After(time.Millisecond)
			}
			p.Signal(syscall.SIGTERM)
			awaitDeath(t, p.Pid())
			configure("srv")
			r.start().end(t, "TERM", 0)
			must(t, fs.Heal())
			_ = p.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// startMute starts a rdmad whose standard error takes nothing.
func startMute(t *testing.T, dir string, args ...string) (*exec.Cmd, *child.Process) {
	t.Helper()
	read, write := pipe(t)
	t.Cleanup(func() { read.Close() })
	size := have(unix.FcntlInt(write.Fd(), unix.F_SETPIPE_SZ, 4096))(t)
	have(write.Write(make([]byte, size)))(t)
	cmd := exec.Command(have(exec.LookPath("rdmad"))(t), append([]string{"--config", "rdmad.yaml", "--drain-timeout", "0s"}, args...)...)
	cmd.Dir, cmd.Stderr = dir, write
	p := have(child.Start(cmd))(t)
	t.Cleanup(p.Kill)
	return cmd, p
}

// TestReasonOfAFailedStart: the reason why a start fails is there also if what was started can't be ended in time.
func TestReasonOfAFailedStart(t *testing.T) {
	t.Setenv(endVar, "0s")
	r := newRig(t)
	taken := have(net.Listen("tcp", apart))(t)
	defer taken.Close()
	cmd := exec.Command(have(exec.LookPath("rdmad"))(t), "--config", "rdmad.yaml", "--drain-timeout", "0s", "--set", "control.listen="+taken.Addr().String())
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), taken.Addr().String()) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestEndOfStartThatHangs: rdmad also ends while its start hangs, and while nothing takes its log.
func TestEndOfStartThatHangs(t *testing.T) {
	t.Setenv(endVar, "1ms")
	r := newRig(t)
	makeDirectory(t, filepath.Join(r.dir, "state"))
	pipe := filepath.Join(r.dir, "state", "connectors.json")
	must(t, syscall.Mkfifo(pipe, 0o600))
	cmd, p := startMute(t, r.dir)
	w := have(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // waits until rdmad reads
	defer w.Close()
	p.Signal(syscall.SIGTERM)
	awaitDeath(t, p.Pid())
	_ = p.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

// TestEndWhileTheWebConfigHangs: a file of the metrics that hangs from the end of the start on keeps neither addresses nor
// the state from another rdmad, though the kernel keeps a thread of the first one.
func TestEndWhileTheWebConfigHangs(t *testing.T) {
	r := newRig(t)
	export, hung, web := filepath.Join(r.dir, "export"), filepath.Join(r.dir, "hung"), filepath.Join(r.dir, "web")
	makeDirectory(t, export)
	makeDirectory(t, hung)
	slow, fs := have(mountHung(export))(t), have(mountHung(hung))(t)
	defer func() { must(t, errors.Join(slow.Close(), fs.Close())) }()
	address := keepPort(t)
	configure := func(path, web string) {
		must(t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), fmt.Appendf(nil, `
control: {listen: "unix://%s/control"}
metrics: {listen: "", web_config: %q}
state: {path: state}
services: [{name: disk, nfs: {path: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, r.dir, web, path, address), 0o600))
	}
	waits := func(f *hungFS) {
		for have(f.Waiting())(t) == 0 {
			<-time.After(time.Millisecond)
		}
	}
	configure(export, web)
	must(t, os.WriteFile(web, []byte("{}"), 0o600))
	must(t, slow.HangStatfs())
	cmd, p := startMute(t, r.dir)
	waits(slow) // it has read the file
	must(t, errors.Join(os.Remove(web), os.Symlink(filepath.Join(hung, hungFile), web), fs.Hang(), slow.Heal()))
	waits(fs)
	p.Signal(syscall.SIGTERM)
	awaitDeath(t, p.Pid())
	configure("srv", "")
	r.start().end(t, "TERM", 0)
	must(t, fs.Heal())
	_ = p.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestEndOfStartInAFile: a start that waits for a file, as of the metrics or of the state, ends in order.
func TestEndOfStartInAFile(t *testing.T) {
	for name, args := range map[string][]string{"pipe": {"--set", "metrics.web_config=pipe"}, "state/listeners.json": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			makeDirectory(t, filepath.Join(r.dir, "state"))
			pipe := filepath.Join(r.dir, name)
			must(t, syscall.Mkfifo(pipe, 0o600))
			cmd, p := startMute(t, r.dir, args...)
			w := have(os.OpenFile(pipe, os.O_WRONLY, 0))(t) // waits until rdmad reads
			defer w.Close()
			p.Signal(syscall.SIGTERM)
			awaitDeath(t, p.Pid())
			_ = p.Wait()
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestEndCutsAReloadOff: a reload that waits for a file system when rdmad ends is not refused. The log and the audit log say
// what happened.
func TestEndCutsAReloadOff(t *testing.T) {
	r := newRig(t)
	hung := filepath.Join(r.dir, "hung")
	makeDirectory(t, hung)
	fs := have(mountHung(hung))(t)
	defer func() { must(t, fs.Close()) }()
	must(t, fs.Hang())
	configure := func(services string) {
		file := filepath.Join(r.dir, "rdmad.yaml")
		must(t, os.WriteFile(file+".new", fmt.Appendf(nil, `
control: {listen: %q}
metrics: {listen: ""}
state: {path: state}
services: [{name: test, echo: {}}%s]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: test}]
`, apart, services, apart), 0o600))
		must(t, os.Rename(file+".new", file))
	}
	configure("")
	p := r.start("--drain-timeout", "0s")
	configure(fmt.Sprintf(", {name: disk, nfs: {path: %q}}", hung))
	must(t, p.signal("HUP"))
	for have(fs.Waiting())(t) == 0 {
		<-time.After(time.Millisecond)
	}
	must(t, p.signal("TERM"))
	awaitDeath(t, p.Pid())
	must(t, p.waitLog(regexp.MustCompile(`"level":"INFO","msg":"configuration not reloaded, because rdmad ends"`), 1))
	if log := p.Log(); strings.Contains(log, "configuration not reloaded; nothing changed") {
		t.Errorf("the log says that it was refused:\n%s", log)
	}
	entries := string(have(os.ReadFile(filepath.Join(r.dir, "state", "audit.log")))(t))
	if !regexp.MustCompile(`"action":"reload",.*"outcome":"CANCELLED","reason":"rdmad ends"`).MatchString(entries) {
		t.Errorf("the audit log has\n%s", entries)
	}
	must(t, fs.Heal())
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d; log:\n%s", code, p.Log())
	}
}

// TestEndWhileTheStateHangs: a change that waits for the disk of the state keeps no address from another rdmad. It keeps the
// state, because the kernel may finish its write at any time.
func TestEndWhileTheStateHangs(t *testing.T) {
	for name, change := range map[string]func(context.Context, *grpc.ClientConn){
		"a service": func(ctx context.Context, conn *grpc.ClientConn) {
			add := &rdmadv1.AddServiceRequest{Name: "test", Kind: &rdmadv1.AddServiceRequest_Echo{Echo: &rdmadv1.EchoService{}}}
			_, _ = rdmadv1.NewListenerServiceClient(conn).AddService(ctx, add)
		},
		"settings": func(ctx context.Context, conn *grpc.ClientConn) {
			set := &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Ddp: &rdmadv1.DdpSettings{MinChunk: new(uint32(4096))}}}
			_, _ = rdmadv1.NewSettingsServiceClient(conn).SetSettings(ctx, set)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(endVar, "10s")
			r := newRig(t)
			hung, state := filepath.Join(r.dir, "hung"), filepath.Join(r.dir, "state")
			makeDirectory(t, hung)
			makeDirectory(t, filepath.Join(r.dir, "disk"))
			fs := have(mountHung(hung))(t)
			defer func() { must(t, fs.Close()) }()
			must(t, os.Symlink("disk", state))
			serve := func(control, metrics, state, tcp, nfs string) *process {
				must(t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), fmt.Appendf(nil, `
control: {listen: %q}
metrics: {listen: %q}
state: {path: %s}
services: [{name: disk, nfs: {path: srv, tcp_listen: %q}}]
listeners: [{name: nfs, provider: softiwarp, address: %q, service: disk}]
`, control, metrics, state, tcp, nfs), 0o600))
				return r.start("--drain-timeout", "0s")
			}
			p := serve(apart, apart, "state", apart, apart)
			link := filepath.Join(r.dir, "link")
			must(t, errors.Join(fs.Hang(), os.Symlink("hung", link), os.Rename(link, state)))
			waits := func(n int) {
				for have(fs.Waiting())(t) < n {
					<-time.After(time.Millisecond)
				}
			}
			if name == "a service" {
				must(t, p.signal("HUP")) // the state is checked once more
				waits(1)
			}
			conn := have(grpc.NewClient(p.addresses["control"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
			defer conn.Close()
			var calls sync.WaitGroup
			before := have(fs.Waiting())(t)
			calls.Go(func() { change(t.Context(), conn) })
			waits(before + 1)
			must(t, p.signal("TERM"))
			awaitDeath(t, p.Pid())
			must(t, p.waitLog(regexp.MustCompile(`"level":"ERROR","msg":"the state stays locked until a change that hangs has ended"`), 1))
			t.Setenv(endVar, "")
			serve(p.addresses["control"], p.addresses["metrics"], "other", p.addresses["tcp_disk"], p.addresses["nfs"]).end(t, "TERM", 0)
			cmd := exec.Command(have(exec.LookPath("rdmad"))(t), "--config", "rdmad.yaml", "--set", "state.path=disk")
			cmd.Dir = r.dir
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "disk is in use by another rdmad") {
				t.Errorf("%v: %s", err, out)
			}
			must(t, fs.Heal())
			if code := p.wait(); code != 1 {
				t.Errorf("exit code %d; log:\n%s", code, p.Log())
			}
			calls.Wait()
		})
	}
}

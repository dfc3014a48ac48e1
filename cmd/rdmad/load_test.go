package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// rig is a directory with a configuration, and what a test does with it.
type rig struct {
	t        testing.TB
	dir      string
	provider rdmacm.Provider // with a referee at each connection
	raw      rdmacm.Provider // without, for peers that break rules on purpose
}

func newRig(t testing.TB) *rig {
	t.Helper()
	p := have(softiwarp.New(softiwarp.Config{}))(t)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	r := &rig{t: t, dir: t.TempDir(), provider: refereetest.Around(t, p), raw: p}
	r.configure(apart)
	return r
}

// apart is an address for ports that are listened on a second time. While
// nobody does, a connection from 127.0.0.1, its own to nobody included, may
// come to have the port, which is then in use.
const apart = "127.0.0.2:0"

// configure writes the configuration, with an address for NFS.
func (r *rig) configure(nfs string) {
	r.t.Helper()
	text := fmt.Sprintf(`
control: {listen: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
state: {path: state}
services:
  - {name: data, nfs: {path: srv}}
  - {name: test, echo: {}}
listeners:
  - {name: nfs, provider: softiwarp, address: %q, service: data}
  - {name: echo, provider: softiwarp, address: "127.0.0.1:0", service: test}
`, nfs)
	must(r.t, os.WriteFile(filepath.Join(r.dir, "rdmad.yaml"), []byte(text), 0o600))
	makeDirectory(r.t, filepath.Join(r.dir, "srv"))
}

// makeDirectory makes a directory to export, if it is missing.
func makeDirectory(t testing.TB, path string) {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
}

// start runs a rdmad until the test ends.
func (r *rig) start(args ...string) *process {
	r.t.Helper()
	program, err := exec.LookPath("rdmad") // put there by testscript
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := startProcess(program, r.dir, append([]string{"--config", "rdmad.yaml"}, args...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.kill)
	return p
}

func (r *rig) dial(address string) *rpcrdma.Client {
	r.t.Helper()
	c := have(rpcrdma.Dial(r.t.Context(), r.provider, address, rpcrdma.DialConfig{MemoryLimit: 16 << 20}))(r.t)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// end sends a signal and wants an exit code.
func (p *process) end(t *testing.T, signal string, code int) {
	t.Helper()
	must(t, p.signal(signal))
	if got := p.wait(); got != code {
		t.Errorf("exit code %d after SIG%s, want %d; log:\n%s", got, signal, code, p.Log())
	}
}

func echoCall(payload []byte) *rpcrdma.Call {
	return &rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho,
		Args: xdr.AppendOpaque(nil, payload), MaxReply: 4 + xdr.Padded(len(payload)),
	}
}

// Told to end under load, rdmad answers what it has begun, gives no wrong
// answer, loses nothing that it acknowledged, and ends with 0.
func TestDrainUnderLoad(t *testing.T) {
	r := newRig(t)
	p := r.start()
	const clients, depth = 3, 8
	var load sync.WaitGroup
	warm := make(chan struct{}, clients*depth)
	for i := range clients {
		c := r.dial(p.addresses["echo"])
		for j := range depth {
			load.Go(func() {
				bytesOf := rand.NewChaCha8([32]byte{byte(i), byte(j)})
				size := rand.New(bytesOf)
				for n := 0; ; n++ {
					payload := make([]byte, size.IntN(20000))
					bytesOf.Read(payload)
					call := echoCall(payload)
					if err := c.Call(t.Context(), call); err != nil {
						return // the connection has ended
					}
					if !bytes.Equal(call.Reply, call.Args) {
						t.Errorf("call %d: %d bytes back for %d", n, len(call.Reply), len(call.Args))
					}
					if n == 20 {
						warm <- struct{}{}
					}
				}
			})
		}
	}
	w := r.writer(p)
	for range clients * depth {
		<-warm
	}
	w.waitFor(20)
	p.end(t, "TERM", 0)
	load.Wait()
	acknowledged := w.stop()
	for _, bad := range []string{"WARN", "ERROR", "panic"} {
		if strings.Contains(p.Log(), bad) {
			t.Errorf("%s in the log:\n%s", bad, p.Log())
		}
	}
	w.check(acknowledged)
}

// Killed under load and started again on the same port, rdmad knows the
// handles it gave out and has every byte that it acknowledged.
func TestKilledAndRestarted(t *testing.T) {
	r := newRig(t)
	p := r.start()
	address := p.addresses["nfs"]
	w := r.writer(p)
	w.waitFor(50)
	p.end(t, "KILL", -1)
	first := w.stop()
	w.check(first)

	r.configure(address)
	r.start()
	c := r.dial(address)
	again := nfstest.FilesOver(c, 0, 0)
	for i := range first {
		got, err := again.Read(t.Context(), w.file, uint64(i)*blockSize, blockSize)
		if err != nil || !bytes.Equal(got.Data, block(i)) {
			t.Fatalf("block %d by the handle from before: %d bytes, %v", i, len(got.Data), err)
		}
	}
}

// A second signal doesn't wait for the drain.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	r := newRig(t)
	p := r.start("--drain-timeout", "1h")
	r.stuckCall(p)
	must(t, p.signal("TERM"))
	for told := range p.told {
		if told == "STOPPING=1" {
			break
		}
		if !strings.HasPrefix(told, "STATUS=") {
			t.Errorf("the service manager got %q", told)
		}
	}
	p.insist(t)
}

// insist sends signals until one has ended the process: signals right after the first count as its double.
func (p *process) insist(t *testing.T) {
	t.Helper()
	for late := time.After(startTimeout); ; runtime.Gosched() {
		select {
		case <-p.Done():
			if code := p.wait(); code != -1 {
				t.Errorf("ended with code %d; log:\n%s", code, p.Log())
			}
			return
		case <-late:
			t.Fatalf("signals did not end it in %v; log:\n%s", startTimeout, p.Log())
		default:
			must(t, p.signal("TERM"))
		}
	}
}

// A second signal ends a rdmad whose reload hangs: the file has become a pipe.
func TestSecondSignalEndsHungReload(t *testing.T) {
	r := newRig(t)
	p := r.start()
	pipe, file := filepath.Join(r.dir, "pipe"), filepath.Join(r.dir, "rdmad.yaml")
	must(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Rename(pipe, file)))
	w, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until rdmad reads
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p.insist(t)
}

// The drain has an end even if a peer does nothing for it.
func TestDrainDeadline(t *testing.T) {
	r := newRig(t)
	p := r.start("--drain-timeout", "50ms")
	r.stuckCall(p)
	p.end(t, "INT", 0)
	if !strings.Contains(p.Log(), "1 connections cut with calls in flight: context deadline exceeded") {
		t.Errorf("log:\n%s", p.Log())
	}
}

// stuckCall has a call in flight that can't go on: its data is to be fetched
// by RDMA Read through a proxy that lets nothing back to the client.
func (r *rig) stuckCall(p *process) {
	r.t.Helper()
	front := have(net.Listen("tcp", "127.0.0.1:0"))(r.t)
	back := have(net.Dial("tcp", p.addresses["echo"]))(r.t)
	stuck, reached := make(chan struct{}), make(chan struct{})
	var copying sync.WaitGroup
	copying.Go(func() {
		in, err := front.Accept()
		if err != nil {
			r.t.Error(err)
			return
		}
		copying.Go(func() {
			io.Copy(back, in)
			back.Close()
		})
		buf := make([]byte, 1<<16)
		for {
			n, err := back.Read(buf)
			if err != nil {
				in.Close()
				return
			}
			select {
			case <-stuck: // swallowed; the first is the Read Request
				select {
				case <-reached:
				default:
					close(reached)
				}
			default:
				in.Write(buf[:n])
			}
		}
	})
	c := r.dial(front.Addr().String())
	must(r.t, c.Call(r.t.Context(), echoCall(nil)))
	close(stuck)
	const size = 1 << 20
	buf := have(c.Alloc(r.t.Context(), size))(r.t)
	args := xdr.AppendUint32(nil, size)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Call(context.Background(), &rpcrdma.Call{
			Program: echo.Program, Version: echo.Version, Procedure: echo.ProcWrite,
			Args: args, Items: []oncrpc.ReplyItem{{Pos: len(args), Buf: buf, Len: size}}, MaxReply: 8,
		})
	}()
	<-reached
	r.t.Cleanup(func() {
		if err := <-ended; err == nil {
			r.t.Error("the stuck call was answered")
		}
		buf.Release()
		front.Close()
		copying.Wait()
	})
}

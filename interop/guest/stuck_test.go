package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/interop/guest/agentwire"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// TestHangingScript plants a script that does not end. Its guest must be
// described and given up, and everything else in it must fail at once.
func TestHangingScript(t *testing.T) {
	img, agent := prepare(t, image.Stock)
	g, err := Start(t.Context(), img, agent, t.TempDir(), Options{MemoryMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}()
	Witness(t, "a witness", func() string { return "what it saw" })
	other, err := g.Start("sleep 1001")
	if err != nil {
		t.Fatal(err)
	}
	g.UseRDMA(t, SIWPlain) // the other one sleeps when this has ended
	hangs, err := g.Start("echo so far; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	begins, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	if err := hangs.Watch(begins, func(stdout string) bool { return stdout == "so far\n" }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := hangs.Wait(ctx); !errors.Is(err, ErrGivenUp) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the script that hangs: error %v, want that the guest is given up", err)
	}
	if _, err := other.Wait(t.Context()); !errors.Is(err, ErrGivenUp) {
		t.Errorf("a script under way: error %v, want that the guest is given up", err)
	}
	if _, err := g.Run(t.Context(), "sleep 1002"); !errors.Is(err, ErrGivenUp) {
		t.Errorf("a script afterwards: error %v, want that the guest is given up", err)
	}
	report := g.Report()
	for _, want := range []string{
		"sleep 1000\nend of stdout:\nso far\n", "sleep: State:", "hrtimer_nanosleep",
		"--- RPC tasks", "--- TCP", "sysrq: Show Blocked State", "--- the end",
		"(qemu-system-x86", "=== TCP on the host", "=== a witness\nwhat it saw",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

// silentAgent is the host's side of a session with an agent that says nothing
// by itself. said are the frames that it gets.
func silentAgent(t *testing.T) (s *session, agent net.Conn, said chan agentwire.Frame) {
	host, agent := net.Pipe()
	s, said = newSession(host), make(chan agentwire.Frame, 100)
	go s.run()
	go func() {
		for {
			frame, err := agentwire.Read(agent)
			if err != nil {
				return
			}
			said <- frame
		}
	}()
	t.Cleanup(func() { host.Close(); agent.Close() })
	return s, agent, said
}

// TestOneBound waits for many scripts of a guest that hangs. Only the first
// wait may take its time.
func TestOneBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := silentAgent(t)
		examined := 0
		s.examine = func(string) { examined++ }
		g, began := &Guest{session: s}, time.Now()
		other, err := g.Start("other")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			if _, err := g.Run(ctx, "sleep 10000"); !errors.Is(err, ErrGivenUp) {
				t.Errorf("error %v, want that the guest is given up", err)
			}
			cancel()
		}
		if err := other.Watch(t.Context(), func(string) bool { return false }); !errors.Is(err, ErrGivenUp) {
			t.Errorf("a script under way: error %v, want that the guest is given up", err)
		}
		if took := time.Since(began); took != time.Hour || examined != 1 {
			t.Errorf("it took %v and the guest was examined %d times, want one bound and once", took, examined)
		}
	})
}

// TestInterruptedWait ends a wait for another reason than a deadline. The guest
// must stay in use.
func TestInterruptedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, said := silentAgent(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g := &Guest{session: s}
		if _, err := g.Run(ctx, "sleep 1000"); !errors.Is(err, context.Canceled) || errors.Is(err, ErrGivenUp) {
			t.Errorf("error %v, want only that it was interrupted", err)
		}
		if start, kill := <-said, <-said; start.Kind != agentwire.Start || kill.Kind != agentwire.Kill {
			t.Errorf("the agent got %+v, %+v", start, kill)
		}
		if _, err := g.Start("true"); err != nil {
			t.Error(err)
		}
	})
}

// TestRunTalking runs a script that takes longer than it may be silent.
func TestRunTalking(t *testing.T) {
	for name, silence := range map[string]time.Duration{"talks": 2 * time.Minute, "falls silent": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, agent, said := silentAgent(t)
				var talking sync.WaitGroup
				defer talking.Wait()
				talking.Go(func() {
					id := (<-said).ID
					for range 10 {
						time.Sleep(time.Minute)
						_ = agentwire.Write(agent, agentwire.Frame{ID: id, Kind: agentwire.Stdout, Payload: []byte("x")})
					}
					_ = agentwire.WriteJSON(agent, id, agentwire.Exit, agentwire.ExitStatus{Code: 3})
				})
				got, err := (&Guest{session: s}).RunTalking(t.Context(), silence, "talk")
				if silence < time.Minute {
					if !errors.Is(err, ErrGivenUp) {
						t.Errorf("error %v, want that the guest is given up", err)
					}
				} else if want := (Result{Stdout: "xxxxxxxxxx", Code: 3}); got != want || err != nil {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
			})
		})
	}
}

// TestQuietGuest ends a guest that nobody hears, though no script is late.
func TestQuietGuest(t *testing.T) {
	s, _, _ := silentAgent(t)
	process, err := child.Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	defer process.Kill()
	g := &Guest{session: s, process: process}
	done := Busy()
	go g.watchQuiet(50 * time.Millisecond)
	select {
	case <-process.Done():
		t.Error("a guest was ended while the host was busy")
	case <-time.After(200 * time.Millisecond):
	}
	done()
	<-process.Done()
	if _, err := g.Start("true"); !errors.Is(err, ErrGivenUp) {
		t.Errorf("error %v, want that the guest is given up", err)
	}
}

// fatal is a test that records how it failed.
type fatal struct {
	testing.TB
	message string
}

func (*fatal) Helper() {}

func (f *fatal) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestBootAfterHangs boots a guest after others hung.
func TestBootAfterHangs(t *testing.T) {
	defer hung.Store(hung.Swap(mostHung))
	f := &fatal{TB: t}
	var booting sync.WaitGroup
	booting.Go(func() { Boot(f, Options{}) })
	booting.Wait()
	if !strings.HasPrefix(f.message, "2 guests hung before") {
		t.Errorf("Boot failed with %q, want that two guests hung", f.message)
	}
}

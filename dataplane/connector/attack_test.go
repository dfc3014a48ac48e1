package connector

import (
	"encoding/binary"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// TestRecordsNotFinished has clients begin large records. Their marks take no
// memory, and another client is served.
func TestRecordsNotFinished(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	const clients = 20
	begun := echoRecord(1, echo.ProcWrite, opaque(1<<20))[:headSize+oncrpc.RecordMarkSize]
	for range clients {
		nc, _ := r.raw()
		if _, err := nc.Write(begun); err != nil {
			t.Fatal(err)
		}
	}
	for r.c.Stats().Calls < clients {
		runtime.Gosched()
	}
	other := r.dial(rpctcp.ClientConfig{})
	for range 10 {
		if _, err := echoCall(t.Context(), other, echo.ProcEcho, opaque(4096)); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 { // the last call returns its memory after its answer
		if r.c.memory.Usage().Held == 0 {
			return
		}
		runtime.Gosched()
	}
	if u := r.c.memory.Usage(); u.Held > mostOfCall {
		t.Errorf("records that have only begun hold %d bytes", u.Held)
	}
}

// TestIdlestGoes fills a connector with clients that make no call. A new client
// that makes calls gets the place of one of them, and an old one that makes calls
// keeps its place.
func TestIdlestGoes(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Limits: dataplane.Limits{Connections: 3}}}})
	here := r.dial(rpctcp.ClientConfig{})
	if _, err := echoCall(t.Context(), here, echo.ProcNull, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.raw()
	}
	for { // the silent clients keep their places for a moment
		c := r.dial(rpctcp.ClientConfig{})
		_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
		c.Close()
		if err == nil {
			break
		}
		if _, err := echoCall(t.Context(), here, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
	}
	r.log.Await(t, "connection down", "its place of connector out was needed")
	if n := r.d.Connectors()[0].Evicted[connlimit.Total]; n != 1 {
		t.Errorf("%d clients lost their places", n)
	}
}

// holder wants a place, and has nothing to do.
type holder struct{}

func (holder) Busy() bool               { return false }
func (holder) Evict(connlimit.Eviction) {}

// TestLastUseCounts: the client whose last call ended first loses its place, not the
// one that connected first. Calls that RPC itself denies are use, too.
func TestLastUseCounts(t *testing.T) {
	call := func(version uint32) []byte {
		msg := oncrpc.AppendCall(nil, &oncrpc.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcNull})
		binary.BigEndian.PutUint32(msg[8:], version)
		return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
	}
	for name, last := range map[string][]byte{"answered": call(2), "denied": call(3)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newLoopback(t), echo.New(), Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Limits: dataplane.Limits{Connections: 2}}}})
			clients, replies := map[string]net.Conn{}, map[string]*oncrpc.RecordReader{}
			use := func(who string, call []byte) {
				t.Helper()
				if _, err := clients[who].Write(call); err != nil {
					t.Fatal(err)
				}
				if _, err := replies[who].Next(); err != nil {
					t.Fatal(err)
				}
				if _, err := replies[who].Read(nil); err != nil {
					t.Fatal(err)
				}
				r.until(func() bool { // the call ends after its answer
					return !slices.ContainsFunc(r.outgoing(), func(c dataplane.ConnInfo) bool { return c.InFlight > 0 })
				})
			}
			for _, who := range []string{"first", "second"} {
				clients[who], replies[who] = r.raw()
				use(who, call(2))
			}
			use("first", last)
			place, err := r.c.place.Places().Admit(time.Now().Add(connlimit.Grace), connlimit.Name("newcomer"), connlimit.Ordinary, holder{})
			if err != nil {
				t.Fatal(err)
			}
			defer place.Leave()
			gone := make(chan string, len(clients))
			for who, nc := range clients {
				go func() {
					_, _ = nc.Read(make([]byte, 1))
					gone <- who
				}()
			}
			if who := <-gone; who != "second" {
				t.Errorf("the %s client lost its place", who)
			}
		})
	}
}

// TestBusy: a client that may hold delegations keeps its connection for as long as
// its lease, and does not when it takes no replies.
func TestBusy(t *testing.T) {
	nc, peer := net.Pipe()
	defer nc.Close()
	defer peer.Close()
	s := &session{gate: budget.New(4), intake: rpctcp.NewIntake(nc, fair.Grace, new(atomic.Uint64), nil), out: rpctcp.NewSender(nc, time.Minute, nil)}
	now := time.Now()
	for _, c := range []struct {
		call oncrpc.Call
		ago  time.Duration
		busy bool
	}{
		{oncrpc.Call{Program: nfsProgram, Version: 3}, 0, false},
		{oncrpc.Call{Program: nfsProgram + 1, Version: 4}, 0, false},
		{oncrpc.Call{Program: nfsProgram, Version: 4}, leaseTime + time.Second, false},
		{oncrpc.Call{Program: nfsProgram, Version: 4}, leaseTime / 2, true},
	} {
		s.renew(&c.call, now.Add(-c.ago))
		if s.busy() != c.busy {
			t.Errorf("program %d version %d %v ago: busy is %v", c.call.Program, c.call.Version, c.ago, s.busy())
		}
	}
	s.lease.Store(0)
	go peer.Write(make([]byte, 4))
	if err := s.intake.Await(); err != nil || s.busy() {
		t.Errorf("busy while its first call arrives (%v)", err)
	}
	if s.called.Store(true); !s.busy() {
		t.Error("not busy while a call arrives")
	}
	s.called.Store(false)
	if err := s.gate.Acquire(t.Context(), 1); err != nil || !s.busy() {
		t.Error("not busy with a call in flight")
	}
}

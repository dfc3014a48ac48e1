package forward

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// patientConn notes how long calls waited.
type patientConn struct {
	fakeConn
	waited chan time.Duration
}

func (c patientConn) Waited(d time.Duration) { c.waited <- d }

// TestFullUpstream: the time for which an upstream takes no calls is told, for
// adaptive credits.
func TestFullUpstream(t *testing.T) {
	nc := newScriptConn()
	taking := make(chan struct{})
	nc.wrote = func([]byte) {
		<-taking
		nc.next <- record(success(1), 0)
	}
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	conn := patientConn{waited: make(chan time.Duration, 1)}
	s.Up(conn)
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.ServeRPC(t.Context(), &oncrpc.Call{XID: 1}, new(oncrpc.Reply)); err != nil {
			t.Error(err)
		}
	})
	for time.Since(began) < 2*time.Millisecond { // it is full for a moment
		select {
		case d := <-conn.waited:
			t.Fatalf("waited %v", d)
		default:
		}
	}
	close(taking)
	if d := <-conn.waited; d <= 0 || d > time.Since(began) {
		t.Errorf("waited %v", d)
	}
	all.Wait()
}

// TestSlowUpstream: an upstream that answers nothing has no more calls in
// flight than there are credits, however many the client makes.
func TestSlowUpstream(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	c := r.dial()
	p := u.accept()
	credits := int(rpcrdma.DefaultSettings().CreditsMax)
	calls := 3 * credits
	var all sync.WaitGroup
	all.Go(func() { p.send(success(p.call().XID), 0) }) // brings the grant
	null := &rpcrdma.Call{Program: nfsProgram, Version: 3}
	if err := c.Call(t.Context(), null); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for range calls {
		all.Go(func() {
			if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := make([]uint32, 0, credits)
	for range credits {
		waiting = append(waiting, p.call().XID)
	}
	if n := r.d.Connections()[0].InFlight; n != credits {
		t.Errorf("%d in flight, %d credits", n, credits)
	}
	for _, xid := range waiting {
		p.send(success(xid), 0)
	}
	for range calls - credits {
		p.send(success(p.call().XID), 0)
	}
	all.Wait()
}

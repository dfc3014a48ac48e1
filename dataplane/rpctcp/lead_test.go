package rpctcp

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/lease"
)

// leadTest is a connection whose leader a test watches.
type leadTest struct {
	t      *testing.T
	server *testServer
	client net.Conn
	replies
	conn *serverConn
}

// replies reads records.
type replies struct{ *oncrpc.RecordReader }

// next returns the XID of the next reply.
func (r replies) next(t *testing.T) uint32 {
	t.Helper()
	xid, _, ok := oncrpc.MessageType(readRecord(t, r.RecordReader))
	if !ok {
		t.Fatal("malformed reply")
	}
	return xid
}

// testLead runs f with a connection to a server of the service that handler makes. Its clock
// is synctest's.
func testLead(t *testing.T, handler func() oncrpc.Handler, f func(*leadTest)) {
	synctest.Test(t, func(t *testing.T) {
		l := newPipeListener()
		s := startServer(t, Config{Handler: handler()}, l)
		client := l.dial(t)
		if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(&leadTest{t, s, client, replies{oncrpc.NewRecordReader(client, 1<<20)}, s.openConns()[0]})
	})
}

// send sends a call with a procedure of the echo service.
func (l *leadTest) send(xid, proc uint32) {
	l.t.Helper()
	if _, err := l.client.Write(record(xid, proc, nil)); err != nil {
		l.t.Fatal(err)
	}
}

// call makes a call.
func (l *leadTest) call(xid uint32) {
	l.t.Helper()
	l.send(xid, echo.ProcNull)
	if got := l.next(l.t); got != xid {
		l.t.Fatalf("reply %d to call %d", got, xid)
	}
	synctest.Wait()
}

// wantWorkers fails unless the connection has that many workers.
func (l *leadTest) wantWorkers(n int) {
	l.t.Helper()
	synctest.Wait()
	if l.conn.crew.size != n {
		l.t.Errorf("%d workers, not %d", l.conn.crew.size, n)
	}
}

// TestLeaderServes: no worker serves calls that come alone. Calls that come together go to
// workers, all but the last one.
func TestLeaderServes(t *testing.T) {
	testLead(t, newEcho, func(l *leadTest) {
		for xid := range uint32(100) {
			l.call(xid)
		}
		l.wantWorkers(0)
		if _, err := l.client.Write(append(record(1000, echo.ProcNull, nil), record(1001, echo.ProcNull, nil)...)); err != nil {
			t.Fatal(err)
		}
		if sum := l.next(t) + l.next(t); sum != 2001 {
			t.Errorf("XIDs with the sum %d", sum)
		}
		if synctest.Wait(); l.conn.crew.size == 0 {
			t.Error("no worker for two calls at once")
		}
	})
}

func newEcho() oncrpc.Handler { return echo.New() }

// hold is the procedure of a service that waits until another call has come.
const hold = 7

func newHolding() oncrpc.Handler {
	other := make(chan struct{})
	return handlerFunc(func(ctx context.Context, call *oncrpc.Call, _ *oncrpc.Reply) error {
		call.Args.Claim()
		if call.Procedure == hold {
			select {
			case <-other:
			case <-ctx.Done():
			}
			return nil
		}
		select {
		case <-other:
		default:
			close(other)
		}
		return nil
	})
}

// TestLongCall: a leader whose call waits loses the lead, so that the connection is read.
// Then workers serve for a while.
func TestLongCall(t *testing.T) {
	testLead(t, newHolding, func(l *leadTest) {
		l.send(1, hold)
		l.wantWorkers(0)
		if !l.conn.lead.Away() {
			t.Error("the leader does not serve the call")
		}
		began := time.Now()
		l.send(2, echo.ProcNull)
		if took := time.Since(began); took > 2*lease.Patience {
			t.Errorf("nobody read the connection for %v", took)
		}
		if sum := l.next(t) + l.next(t); sum != 3 {
			t.Errorf("XIDs with the sum %d", sum)
		}
		l.wantWorkers(1)
		for left := lease.LeastRest - 2; left >= 0; left-- { // call 2 was the first
			l.call(100)
			if l.conn.lead.Rest != left {
				t.Fatalf("%d calls left for workers, not %d", l.conn.lead.Rest, left)
			}
		}
		l.call(101)
		if l.conn.lead.Penalty != 0 {
			t.Error("the leader did not serve the call after these")
		}
	})
}

// TestUnreadReply: a leader whose reply is not read loses the lead, so that the connection
// is read.
func TestUnreadReply(t *testing.T) {
	testLead(t, newEcho, func(l *leadTest) {
		l.send(1, echo.ProcNull)
		synctest.Wait()
		l.send(2, echo.ProcNull)
		l.send(3, echo.ProcNull)
		if sum := l.next(t) + l.next(t) + l.next(t); sum != 6 {
			t.Errorf("XIDs with the sum %d", sum)
		}
	})
}

// TestEndWithLeader ends connections while their leaders serve, before and after these have
// lost the lead.
func TestEndWithLeader(t *testing.T) {
	for _, late := range []bool{false, true} {
		for name, end := range map[string]func(l *leadTest) error{
			"peer":     func(l *leadTest) error { l.send(2, echo.ProcNull); return l.client.Close() },
			"close":    func(l *leadTest) error { return l.server.Close() },
			"shutdown": func(l *leadTest) error { return shutdownSoon(l.server.Server) },
		} {
			t.Run(name, func(t *testing.T) {
				testLead(t, newHolding, func(l *leadTest) {
					l.send(1, hold)
					synctest.Wait()
					if late {
						time.Sleep(2 * lease.Patience)
					}
					if synctest.Wait(); l.conn.lead.Away() == late {
						t.Errorf("the leader is away: %v", !late)
					}
					if err := end(l); err != nil {
						t.Error(err)
					}
					if _, err := l.client.Read(make([]byte, 1)); err == nil {
						t.Error("a reply to the call")
					}
					l.client.Close()
					time.Sleep(2 * lease.Patience)
					synctest.Wait()
					if n := len(l.server.openConns()); n != 0 {
						t.Errorf("%d connections left", n)
					}
				})
			})
		}
	}
}

// shutdownSoon shuts a server down that has a call which does not end.
func shutdownSoon(s *Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.Shutdown(ctx) == nil {
		return io.ErrNoProgress
	}
	return nil
}

// TestLargeCall: a large call that another call waits for is the last one that leaders serve
// for a while. Small calls are not, if they are short.
func TestLargeCall(t *testing.T) {
	testLead(t, newEcho, func(l *leadTest) {
		l.conn.lead.unread = func() bool { return true }
		for _, x := range []struct{ size, rest int }{{100, 0}, {large, 0}, {large + 1, lease.LeastRest}} {
			call := record(1, echo.ProcEcho, opaque(x.size/2-50))
			if x.size > large {
				call = record(1, echo.ProcRead, xdr.AppendUint32(nil, large))
			}
			go func() { _, _ = l.client.Write(call) }()
			l.next(t)
			if synctest.Wait(); l.conn.lead.Rest != x.rest {
				t.Errorf("after %d bytes: %d calls for workers, not %d", x.size, l.conn.lead.Rest, x.rest)
			}
		}
	})
}

// TestJudge: after which calls leaders continue to serve.
func TestJudge(t *testing.T) {
	var d lead
	for _, x := range []struct {
		took   time.Duration
		waited bool
		rest   int
	}{
		{lease.Brisk, false, 0},
		{lease.Brisk + 1, false, lease.LeastRest},
		{0, true, 2 * lease.LeastRest},
		{time.Second, true, 4 * lease.LeastRest},
		{lease.Bearable, false, 0},
		{time.Second, false, lease.LeastRest},
	} {
		d.Rest = 0
		if d.judge(x.took, x.waited); d.Rest != x.rest {
			t.Errorf("after %v, another call waited: %v: %d calls for workers, not %d", x.took, x.waited, d.Rest, x.rest)
		}
	}
	for range 20 {
		d.Tire()
	}
	if d.Rest != lease.MostRest {
		t.Errorf("after many long calls: %d calls for workers", d.Rest)
	}
}

// TestArrived looks for bytes that were not read.
func TestArrived(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if arrived(server) {
		t.Error("bytes that nobody sent")
	}
	if _, err := client.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(make([]byte, 1)); err != nil { // both are there
		t.Fatal(err)
	}
	if !arrived(server) {
		t.Error("the second byte is not seen")
	}
	if end, _ := net.Pipe(); arrived(end) {
		t.Error("a pipe says what it has")
	}
}

// TestLeadIsLostBeforeTheWatchGoesOn: a call may end after the watch has taken the lead and
// before it starts the next leader.
func TestLeadIsLostBeforeTheWatchGoesOn(t *testing.T) {
	var release chan struct{}
	testLead(t, func() oncrpc.Handler {
		release = make(chan struct{})
		return handlerFunc(func(_ context.Context, call *oncrpc.Call, _ *oncrpc.Reply) error {
			call.Args.Claim()
			<-release
			return nil
		})
	}, func(l *leadTest) {
		l.send(1, echo.ProcNull)
		synctest.Wait()
		if !l.conn.lead.Take() { // as the watch does
			t.Fatal("the leader is not away")
		}
		close(release)
		if got := l.next(l.t); got != 1 {
			t.Fatalf("reply to %d", got)
		}
		synctest.Wait() // the old leader is gone
		(*leader)(l.conn).Expired()
		l.call(2)
	})
}

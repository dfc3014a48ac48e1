package forward

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
)

// slowConn keeps the caller of Waited until may is closed.
type slowConn struct {
	perconn.Conn
	may chan struct{}
}

func (c slowConn) Waited(time.Duration) { <-c.may }

// TestSentLetsGo: the reply to a call that counts as sent may come, and another call may use
// its memory, while the goroutine that sent it is still in Sent. The race detector judges.
func TestSentLetsGo(t *testing.T) {
	s := newSession(New(Config{}), netip.AddrPort{}, newScriptConn())
	defer s.Close()
	conn := slowConn{may: make(chan struct{})}
	s.conn = conn
	c := s.take()
	c.ctx = context.Background()
	if err := s.register(c); err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.Sent(nil)
	}()
	for sending := true; sending; time.Sleep(time.Millisecond) { // a channel from the goroutine would hide the race
		s.mu.Lock()
		sending = c.sending
		s.mu.Unlock()
	}
	s.expect(c.xid)
	if err := s.register(c); err != nil { // as the next call
		t.Error(err)
	}
	close(conn.may)
	<-sent
}

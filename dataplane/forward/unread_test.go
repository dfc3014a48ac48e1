package forward

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestReplyNotTaken: a client does not take a long reply. It holds no memory that the long
// replies of others wait for.
func TestReplyNotTaken(t *testing.T) {
	const size = 600 << 10
	p, second := loopback.New(loopback.Config{}), loopback.New(loopback.Config{})
	t.Cleanup(func() { second.Close() })
	u := newUpstream(t)
	r := newRig(t, p, u.address, func(cfg *Config) { cfg.Unpooled = budget.New(1 << 20) })
	others, err := r.d.PrepareListener(t.Context(), dataplane.ListenerConfig{ // completions are not late there
		Name: "others", Provider: second, Address: "127.0.0.1:0", Service: "upstream", Handler: r.Forwarder,
	})
	if err != nil {
		t.Fatal(err)
	}
	others.Enter()
	long := func(c *rpcrdma.Client) error { // of a program without a binding
		return c.Call(t.Context(), &rpcrdma.Call{Program: 7, Version: 1, MaxReply: size})
	}
	slow := r.dial()
	up := u.accept()
	over := make(chan error, 1)
	go func() { over <- long(slow) }()
	xid := up.call().XID
	p.Fabric().SetFaults(loopback.Faults{CompletionDelay: time.Hour}) // of the reply
	up.send(success(xid, random(size)), 0)
	for r.d.Connections()[0].Stats.RDMAWrites == 0 {
		time.Sleep(time.Millisecond)
	}

	other, err := rpcrdma.Dial(t.Context(), second, others.Info().Address.String(), rpcrdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	up = u.accept()
	go func() { up.send(success(up.call().XID, random(size)), 0) }()
	if err := long(other); err != nil {
		t.Errorf("another client: %v", err)
	}
	select {
	case err := <-over:
		t.Fatalf("the reply was taken: %v", err)
	default:
	}
	if err := slow.Close(); err != nil {
		t.Error(err)
	}
	if err := <-over; err == nil {
		t.Error("a closed client has a reply")
	}
	if err := r.d.CloseConnection(r.d.Connections()[0].ID); err != nil { // its completion is late
		t.Error(err)
	}
}

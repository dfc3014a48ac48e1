//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestManyPeersAtOnce: peers that connect at the same moment wait for their turn, in the kernel and
// with their own connection managers, and none is rejected. On iWARP the kernel would reject them.
func TestManyPeersAtOnce(t *testing.T) {
	const backlog, peers = 4, 12 // in the queue, in the kernel, and sent again
	p := newProvider(t, Config{Backlog: backlog, roomTimeout: verbstest.Patience})
	defer verbstest.CloseProvider(t, p)
	if p.hasIWARP() {
		return
	}
	ln, err := p.Listen(t.Context(), "0.0.0.0:0")
	must(t, err)
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	port := strconv.Itoa(int(ln.Addr().Port()))
	for i := range peers {
		// A request to an own address comes from that address.
		address := fmt.Sprintf("10.77.0.%d", i+1)
		system(t, "ip addr add "+address+"/32 dev "+network)
		defer system(t, "ip addr del "+address+"/32 dev "+network)
		defer p.request(ctx, t, net.JoinHostPort(address, port), i+1).Close()
	}
	for {
		if all, _, _ := ln.(*listener).requests.Load(); all == backlog {
			break
		}
		if ctx.Err() != nil {
			t.Fatal("the queue is not full")
		}
		time.Sleep(time.Millisecond)
	}
	for i := range peers {
		id, err := ln.GetRequest(ctx)
		if err != nil {
			t.Fatalf("%d of %d requests came: %v", i, peers, err)
		}
		must(t, id.Close())
	}
}

// request sends a connection request without a queue pair, but with the number of one.
func (p *Provider) request(ctx context.Context, t *testing.T, to string, qp int) rdmacm.ID {
	t.Helper()
	id := p.resolveNew(ctx, t, to)
	own := id.(*connID)
	c, err := own.param(&rdmacm.ConnParam{}, requestData)
	must(t, err)
	setNumber(&c.qp_num, qp)
	must(t, own.call(ctx, c, make(chan struct{}), nil))
	return id
}

// resolveNew resolves an own address that an interface has just got: on rxe, the device has it a
// moment later.
func (p *Provider) resolveNew(ctx context.Context, t *testing.T, to string) rdmacm.ID {
	t.Helper()
	id, err := p.Resolve(ctx, to)
	for err != nil && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
		id, err = p.Resolve(ctx, to)
	}
	must(t, err)
	return id
}

func setNumber[T ~uint32](number *T, n int) { *number = T(n) }

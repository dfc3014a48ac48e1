package rpcrdma_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestStalledReads: a peer that never answers RDMA Reads loses its connection
// and holds no memory after that. Until then others get theirs.
func TestStalledReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{})
		b := newBed(t, p, bedConfig{memory: 40 << 20, timeout: time.Hour})
		good, _ := b.dial(nil)
		bad := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)) // no invalidation
		conn := <-b.conns
		data := bad.memory(1<<20, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		first := message(rpcrdma1.Header{XID: 99}, procNull)
		bad.exchange(first)
		bad.seemFar(p, data)
		holdReads(p, time.Hour, func() { bad.post(writing(0, data, 1<<20)) })
		for xid := range uint32(29) {
			bad.post(writing(1+xid, data, 1<<20))
		}
		synctest.Wait()
		if m := b.l.Memory().Taken; m < 4<<20 || m > 20<<20 {
			t.Errorf("one peer holds %d bytes", m)
		}
		if err := writeOut(b.ctx, good, 1<<20, 1); err != nil {
			t.Errorf("another connection: %v", err)
		}
		time.Sleep(time.Minute)
		<-conn.Done()
		if err := conn.Err(); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("%v", err)
		}
		if m := b.l.Memory().Taken; m > 1<<20 {
			t.Errorf("%d bytes taken", m)
		}
	})
}

// TestStallEnds: an operation that makes no progress ends the connection, and
// nothing is left of it.
func TestStallEnds(t *testing.T) {
	for name, run := range map[string]func(b *bed, c *rpcrdma.Client) error{
		"read":  func(b *bed, c *rpcrdma.Client) error { return writeOut(b.ctx, c, 1<<20, 1) },
		"write": func(b *bed, c *rpcrdma.Client) error { return readBack(b.ctx, c, procRead, 1<<20, 1<<20, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := loopback.New(loopback.Config{Network: loopback.FabricConfig{Transport: loopback.InfiniBand}})
				b := newBed(t, p, bedConfig{timeout: 10 * time.Hour})
				c, conn := b.dial(nil)
				p.Fabric().SetDelay(time.Minute)
				// What was on its way may still arrive.
				var end *rpcrdma.Error
				if err := run(b, c); err != nil && !errors.As(err, &end) {
					t.Errorf("%v", err)
				}
				<-conn.Done()
				<-c.Done()
				if !errors.Is(c.Err(), transport.ErrStalled) && !errors.Is(conn.Err(), transport.ErrStalled) {
					t.Errorf("%v, %v", c.Err(), conn.Err())
				}
			})
		})
	}
}

// TestSlowIsNotStalled: a long way to the peer, and services that take their
// time, are no reason to end a connection.
func TestSlowIsNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := loopback.New(loopback.Config{Network: loopback.FabricConfig{Delay: 5 * time.Second}})
		slow := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			time.Sleep(10 * time.Minute)
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{handler: slow, timeout: 100 * time.Hour})
		c, _ := b.dial(nil)
		should(t, writeOut(b.ctx, c, 1<<20, 1))
		should(t, readBack(b.ctx, c, procRead, 1<<20, 1<<20, 1))
		time.Sleep(24 * time.Hour) // idle
		should(t, echo(b.ctx, c, 9000, 1))
		if m := b.l.Memory(); m.Registered > 4<<20 {
			t.Errorf("idle memory was not trimmed: %+v", m)
		}
	})
}

package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// inParts answers procRead in two parts. Between them it does what the test wants, which may
// fill the result up to some more bytes.
type inParts struct {
	service
	between func(ctx context.Context, fill func(n int)) error
}

func (p inParts) ServeRPC(ctx context.Context, c *call, r *reply) error {
	d := xdr.NewDecoder(c.Args.Stream)
	size, seed := int(d.Uint32()), d.Uint32()
	if c.Procedure != procRead && c.Procedure != procHeap {
		return p.service.ServeRPC(ctx, c, r)
	}
	var buf oncrpc.Buffer = make(heapBuffer, size)
	if c.Procedure == procRead {
		var err error
		if buf, err = r.Mem.Alloc(ctx, size); err != nil {
			return err
		}
	}
	data := make([]byte, size)
	pattern(data, seed)
	r.Stream = xdr.AppendUint32(xdr.AppendUint32(r.Stream, seed), uint32(size))
	r.AppendItem(buf, size)
	at := 0
	fill := func(n int) {
		at += copy(buf.Bytes()[at:n], data[at:n])
		r.Filled(n)
	}
	fill(size / 2)
	if err := p.between(ctx, fill); err != nil {
		return err
	}
	copy(buf.Bytes()[at:size], data[at:])
	r.Stream = xdr.AppendUint32(r.Stream, ^seed)
	return nil
}

// until waits until an operation was seen, and gives what was seen up to now.
func (l *looker) until(what string) []seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for _, s := range l.all {
			if s.String() == what {
				return l.all
			}
		}
		l.grown.Wait()
	}
}

var errService = errors.New("the service fails")

// TestWritesAhead: what a service has of a result goes to the peer while the service waits
// for the rest, however the call ends then.
func TestWritesAhead(t *testing.T) {
	const size = 100_000
	half := make([]byte, size/2)
	pattern(half, 1)
	for name, tc := range map[string]struct {
		then func() error
		good bool
	}{
		"whole":  {func() error { return nil }, true},
		"fails":  {func() error { return errService }, false},
		"panics": {func() error { panic("as asked") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				var tap rpcrdma.Tap
				look := newLooker(t)
				goOn := make(chan struct{})
				b := newBed(t, p, bedConfig{tap: &tap, handler: inParts{between: func(context.Context, func(int)) error {
					<-goOn
					return tc.then()
				}}})
				c, server := b.dial(nil)
				tap.Set(look)
				done := begin(func() error { return readBack(b.ctx, c, procRead, size, size, 1) })
				if first := look.until("write out"); len(first) != 2 || !bytes.Equal(first[1].data, half) {
					t.Errorf("first came %v", first)
				}
				goOn <- struct{}{}
				err := <-done
				if _, failed := errors.AsType[*oncrpc.AcceptError](err); failed == tc.good || err != nil == tc.good {
					t.Errorf("answered with %v", err)
				}
				all := look.answer()
				if want := 3; tc.good && len(all) != want+1 || !tc.good && len(all) != want {
					t.Errorf("seen: %v", all)
				}
				close(goOn)
				if err := echo(b.ctx, c, 100, 1); err != nil {
					t.Errorf("the next call: %v", err)
				}
				if s := server.Stats(); tc.good && (s.RDMAWrites != 2 || s.PlacedBytes != size) || !tc.good && s.RDMAWrites != 1 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestNoWritesAhead: memory of no pool is sent with the reply.
func TestNoWritesAhead(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{handler: inParts{between: func(context.Context, func(int)) error { return nil }}})
		c, server := b.dial(nil)
		should(t, readBack(b.ctx, c, procHeap, 100_000, 100_000, 1))
		if s := server.Stats(); s.RDMAWrites != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestWritesAheadEnd: a connection that ends in the middle of a result leaves nothing.
func TestWritesAheadEnd(t *testing.T) {
	for name, end := range map[string]func(c *rpcrdma.Client, server *rpcrdma.Conn) error{
		"the client is gone": func(c *rpcrdma.Client, _ *rpcrdma.Conn) error {
			_ = c.Close() // fails while the call has its buffer
			return nil
		},
		"the server closes": func(_ *rpcrdma.Client, server *rpcrdma.Conn) error { return server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				var tap rpcrdma.Tap
				look := newLooker(t)
				tap.Set(look)
				b := newBed(t, p, bedConfig{tap: &tap, handler: inParts{between: func(ctx context.Context, fill func(int)) error {
					<-ctx.Done()
					fill(60_000) // late
					return nil
				}}})
				c, server := b.dial(nil)
				done := begin(func() error { return readBack(b.ctx, c, procRead, 100_000, 100_000, 1) })
				look.until("write out")
				should(t, end(c, server))
				if err := <-done; err == nil {
					t.Error("answered")
				}
				<-server.Done()
				if m := b.l.Memory().Taken; m != 0 {
					t.Errorf("%d bytes taken", m)
				}
			})
		})
	}
}

// TestWritesAheadKeepMemory: the memory of a result that is partly written stays until the
// RDMA Writes have completed, also when the service fails.
func TestWritesAheadKeepMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := acknowledging()
		b := newBed(t, p, bedConfig{timeout: 10 * time.Hour, handler: inParts{between: func(context.Context, func(int)) error {
			return errService
		}}})
		c, server := b.dial(nil)
		must(t, echo(b.ctx, c, 100, 1))
		done := begin(func() error { return readBack(b.ctx, c, procRead, 1<<20, 1<<20, 1) })
		p.Fabric().SetDelay(10 * time.Second) // the call takes that long, and its answer
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if c := b.charged(); server.Stats().RDMAWrites != 1 || c.replies < 1<<20 {
			t.Errorf("%+v while %d Writes are on their way", c, server.Stats().RDMAWrites)
		}
		if err := <-done; err == nil {
			t.Error("answered")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := b.charged(); c.replies != 0 {
			t.Errorf("%+v at the end", c)
		}
	})
}

// TestWritesAheadOweNothing: a peer whose results come slowly from the service does not pay
// for the memory that they hold, although others wait for it.
func TestWritesAheadOweNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, acknowledging(), bedConfig{timeout: 10 * time.Hour, memory: 40 << 20, handler: inParts{between: func(_ context.Context, fill func(int)) error {
			for n := range 60 {
				time.Sleep(time.Second)
				fill(1<<19 + 1<<10*n)
			}
			return nil
		}}})
		var all sync.WaitGroup
		for range 2 {
			c, server := b.dial(nil)
			must(t, echo(b.ctx, c, 100, 1)) // it grants credits
			for range 20 {
				all.Go(func() {
					if err := readBack(b.ctx, c, procRead, 1<<20, 1<<20, 1); err != nil {
						t.Errorf("%v; the connection ended for %v", err, server.Err())
					}
				})
			}
		}
		time.Sleep(5 * time.Second)
		if c := b.charged(); c.waiting == 0 {
			t.Errorf("nobody waits: %+v", c)
		}
		all.Wait()
	})
}

package rpcrdma_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// anyCall makes one random call of the test service.
func anyCall(ctx context.Context, c *rpcrdma.Client, rng *rand.Rand) error {
	n, seed := rng.IntN(20000), rng.Uint32()
	if rng.IntN(20) == 0 {
		n *= 40
	}
	switch rng.IntN(5) {
	case 0:
		return plain(ctx, c, procNull)
	case 1:
		return echo(ctx, c, n, seed)
	case 2:
		return readBack(ctx, c, procRead, n, n+rng.IntN(100), seed)
	case 3:
		return readBack(ctx, c, procHeap, n, n, seed)
	default:
		return writeOut(ctx, c, n, seed)
	}
}

// load runs callers until each has made count calls, each after before.
func load(t *testing.T, ctx context.Context, c *rpcrdma.Client, callers, count int, before func()) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for range count {
				before()
				if err := anyCall(ctx, c, rng); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestManyInFlight(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, conn := b.dial(nil)
		load(t, b.ctx, c, 64, 8, func() {})
		if s := conn.Stats(); s.Calls != 64*8 || s.Replies != s.Calls || s.Errors+s.Dropped+s.Ignored+s.Duplicates != 0 {
			t.Errorf("%+v", s)
		}
		if got := c.Info().CreditsGranted; got != 64 {
			t.Errorf("granted %d", got)
		}
	})
}

// TestInFlightTogether: as many calls as are granted are with the service at
// once.
func TestInFlightTogether(t *testing.T) {
	const together = 64
	var in atomic.Int32
	all := make(chan struct{})
	h := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		if c.Procedure == procNull {
			return nil
		}
		if in.Add(1) == together {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	b := newBed(t, providers[0].make(t), bedConfig{handler: h})
	c, _ := b.dial(nil)
	first := newCall(procNull) // brings the grant
	must(t, c.Call(b.ctx, &first))
	var wg sync.WaitGroup
	for range together {
		wg.Go(func() { should(t, plain(b.ctx, c, procEcho)) })
	}
	wg.Wait()
}

type handlerFunc func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// TestSettingsUnderLoad: no call fails while every live setting changes on
// both sides.
func TestSettingsUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) { s.InlineReceiveSize = 16384 }})
		c, conn := b.dial(func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 })
		var seed atomic.Uint64
		change := func() {
			rng := rand.New(rand.NewPCG(2, seed.Add(1)))
			for _, set := range []func(*rpcrdma.Settings){conn.SetSettings, c.SetSettings} {
				s := rpcrdma.DefaultSettings()
				s.InlineSendMax = 1024 + uint32(rng.IntN(20000))
				s.DDPMinChunk = uint32(rng.IntN(10000))
				s.CreditsMax = 1 + uint32(rng.IntN(200))
				s.CreditsMin = 1 + uint32(rng.IntN(4))
				s.CreditsPolicy = rpcrdma.CreditsPolicy(rng.IntN(2))
				s.RemoteInvalidationUse = rng.IntN(2) == 0
				set(&s)
			}
		}
		load(t, b.ctx, c, 24, 20, change)
		if s := conn.Stats(); s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestSettingsInForce: what Info tells follows the settings at once.
func TestSettingsInForce(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{settings: func(s *rpcrdma.Settings) { s.InlineSendMax = 6000 }})
	c, conn := b.dial(func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 })
	call := func() {
		t.Helper()
		must(t, readBack(b.ctx, c, procRead, 10000, 10000, 1))
	}
	call()
	if i := conn.Info(); i.InlineSend != 5120 || i.InlineReceive != 4096 || i.CreditsGranted != 64 || !i.RemoteInvalidation || i.Provider != "loopback" || i.RPCVersion != 1 {
		t.Errorf("%+v", i)
	}
	invalidated := conn.Stats().SendsWithInvalidate
	if invalidated == 0 {
		t.Error("no Send With Invalidate")
	}
	// What was told at connect, in steps of 1 KiB, bounds Sends for good.
	s := rpcrdma.DefaultSettings()
	s.InlineSendMax, s.CreditsMax, s.RemoteInvalidationUse = 1<<20, 128, false
	conn.SetSettings(&s)
	c.SetSettings(&s)
	call()
	if i := conn.Info(); i.InlineSend != 5120 || i.PeerReceive != 5120 || i.PeerReceiveSize != 8192 || !i.PeerRemoteInvalidation || i.CreditsGranted != 128 || i.RemoteInvalidation {
		t.Errorf("%+v", i)
	}
	if n := conn.Stats().SendsWithInvalidate; n != invalidated {
		t.Errorf("%d Sends With Invalidate, %d before", n, invalidated)
	}
	if i := c.Info(); i.CreditsGranted != 128 || i.InlineSend != 4096 || i.PeerReceive != 4096 || i.PeerReceiveSize != 4096 {
		t.Errorf("client: %+v", i)
	}
	s.InlineSendMax = 1500
	conn.SetSettings(&s)
	if i := conn.Info(); i.InlineSend != 1500 || i.PeerReceive != 5120 {
		t.Errorf("%+v", i)
	}
}

// TestSendsAsTold: a kernel client posts receives of what it was told that we
// send. A limit that rises above that later changes nothing for it.
func TestSendsAsTold(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{settings: func(s *rpcrdma.Settings) { s.InlineSendMax, s.InlineReceiveSize = 2048, 8192 }})
	r := b.dialRaw(wire.PrivateData{SendSize: 8192, ReceiveSize: 8192}.Append(nil))
	conn := <-b.conns
	s := b.settings
	s.InlineSendMax = 8192
	conn.SetSettings(&s)
	args := xdr.AppendOpaque(nil, make([]byte, 3000))
	reply := r.memory(8192, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	h := rpcrdma1.Header{XID: 1, HasReply: true, Reply: rpcrdma1.WriteChunk{segment(reply, 0, 8192)}}
	if got, _ := r.exchange(message(h, procEcho, args...)); got.Proc != rpcrdma1.NoMsg {
		t.Errorf("%+v", got)
	}
}

// blocking is the test service, but that echo waits for release.
type blocking struct{ entered, release chan struct{} }

func (h blocking) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure == procEcho || c.Procedure == procRead {
		h.entered <- struct{}{}
		select {
		case <-h.release:
		case <-ctx.Done():
		}
	}
	return service{}.ServeRPC(ctx, c, r)
}

func newBlocking() blocking {
	return blocking{entered: make(chan struct{}, 1000), release: make(chan struct{})}
}

// TestCancelInline: calls without chunks are given up, in flight and waiting
// for a credit; the connection goes on.
func TestCancelInline(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		h := newBlocking()
		b := newBed(t, p, bedConfig{handler: h, settings: func(s *rpcrdma.Settings) { s.CreditsMax = 4 }})
		c, _ := b.dial(nil)
		ctx, cancel := context.WithCancel(b.ctx)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if err := echo(ctx, c, i*100, 1); !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
			})
		}
		<-h.entered
		cancel()
		wg.Wait()
		close(h.release)
		for i := range 20 {
			must(t, echo(b.ctx, c, i*500, 1))
		}
		if s := c.Stats(); s.Ignored == 0 {
			t.Errorf("no late reply: %+v", s)
		}
	})
}

// TestCancelExposed: when a call with memory exposed is given up, that memory
// is out of the peer's reach, which learns it the hard way.
func TestCancelExposed(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		h := newBlocking()
		b := newBed(t, p, bedConfig{handler: h})
		c, conn := b.dial(nil)
		buf, err := c.Alloc(b.ctx, 1<<20)
		must(t, err)
		defer buf.Release()
		ctx, cancel := context.WithCancel(b.ctx)
		go func() {
			<-h.entered
			cancel()
		}()
		call := newCall(procRead)
		call.Args = []byte{0, 1, 0, 0, 0, 0, 0, 7}
		call.MaxReply = 12
		call.Results = []rpcrdma.Result{{Buf: buf, Max: 1 << 20}}
		if err := c.Call(ctx, &call); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(h.release)
		<-conn.Done()
		if err := conn.Err(); err == nil {
			t.Error("the responder wrote without an error")
		}
		for i, v := range buf.Bytes() {
			if v != 0 {
				t.Fatalf("byte %d was written", i)
			}
		}
	})
}

func TestDrainUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, conn := b.dial(nil)
		var done, failed atomic.Int32
		var wg sync.WaitGroup
		some := make(chan struct{})
		for i := range 16 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(i)))
				for {
					err := anyCall(b.ctx, c, rng)
					var end *rpcrdma.Error
					switch {
					case err == nil:
						if done.Add(1) == 100 {
							close(some)
						}
						continue
					case !errors.As(err, &end) && !errors.Is(err, rpcrdma.ErrClosed):
						t.Errorf("%v", err)
					}
					failed.Add(1)
					return
				}
			})
		}
		<-some
		should(t, conn.Drain(b.ctx))
		wg.Wait()
		if err := conn.Err(); err != nil {
			t.Errorf("an orderly end says %v", err)
		}
		if s := conn.Stats(); s.Calls != s.Replies || uint64(done.Load()) != s.Replies {
			t.Errorf("%d calls returned: %+v", done.Load(), s)
		}
		<-c.Done()
	})
}

func TestClientDrain(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, conn := b.dial(nil)
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				if i == 1 {
					started <- struct{}{}
				}
				if err := echo(b.ctx, c, 9000, 1); err != nil {
					if !errors.Is(err, rpcrdma.ErrDraining) && !errors.Is(err, rpcrdma.ErrClosed) {
						t.Errorf("%v", err)
					}
					return
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	should(t, c.Drain(b.ctx))
	wg.Wait()
	<-conn.Done()
	if c.Err() != nil || conn.Err() != nil {
		t.Errorf("%v, %v", c.Err(), conn.Err())
	}
}

// TestClose: both sides may end a busy connection at any moment; every call
// returns, and nothing is left (newBed checks).
func TestClose(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		for round := range 4 {
			c, conn := b.dial(nil)
			var wg sync.WaitGroup
			var once sync.Once
			for i := range 8 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
					for k := 0; ; k++ {
						if anyCall(b.ctx, c, rng) != nil {
							return
						}
						if k == round*3 {
							once.Do(func() {
								if round%2 == 0 {
									go conn.Close()
								} else {
									go c.Close()
								}
							})
						}
					}
				})
			}
			wg.Wait()
			<-conn.Done()
			<-c.Done()
		}
	})
}

// TestThousandConnections: idle connections hold their first receives only,
// and all of them work.
func TestThousandConnections(t *testing.T) {
	const n = 1000
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{})
	clients := make([]*rpcrdma.Client, n)
	for i := range clients {
		clients[i], _ = b.dial(func(s *rpcrdma.Settings) { s.CreditsMax = 4 })
	}
	// (8 + 2) receives of 4 KiB each; slabs are larger than what is in use.
	if m := b.l.Memory(); m.Taken > n*10*4096+4096 || m.Registered > 2*m.Taken {
		t.Errorf("idle connections hold %+v", m)
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { should(t, writeOut(b.ctx, c, 5000, uint32(i))) })
	}
	wg.Wait()
	for _, c := range clients {
		wg.Go(func() { c.Close() })
	}
	wg.Wait()
}

// TestMemoryPressure: more calls with large chunks than the pool has memory
// for; they take turns.
func TestMemoryPressure(t *testing.T) {
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{memory: 6 << 20})
	var wg sync.WaitGroup
	for k := range 3 {
		c, _ := b.dial(func(s *rpcrdma.Settings) { s.CreditsMax = 16 })
		for i := range 8 {
			wg.Go(func() {
				for j := range 2 {
					var err error
					switch n := 1<<20 - i - j; (i + j + k) % 3 {
					case 0:
						err = writeOut(b.ctx, c, n, 1)
					case 1:
						err = readBack(b.ctx, c, procRead, n, n, 1)
					default:
						err = echo(b.ctx, c, n-1000, 1)
					}
					should(t, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestContextEndsWhileDialing(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	ctx, cancel := context.WithDeadline(b.ctx, time.Now().Add(-time.Second))
	defer cancel()
	if c, err := rpcrdma.Dial(ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{}); err == nil {
		c.Close()
		t.Fatal("connected")
	}
	if _, err := rpcrdma.Dial(b.ctx, b.p, bedHost+":9", rpcrdma.DialConfig{}); !errors.Is(err, rdmacm.ErrUnreachable) {
		t.Error(err)
	}
}

package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// arriving answers procWrite as service does, from items that arrive meanwhile.
type arriving struct {
	service
	saw func(have int) error // what has arrived
}

func (a arriving) ServeRPC(ctx context.Context, c *call, r *reply) error {
	if c.Procedure != procWrite || c.Arrival == nil {
		return a.service.ServeRPC(ctx, c, r)
	}
	if err := a.saw(0); err != nil {
		return err
	}
	var got []byte
	size := c.Args.Items[0].Len()
	for len(got) < size {
		n, err := c.Arrival.Wait(ctx, len(got))
		if err != nil {
			return err
		}
		got = append(got, c.Args.Items[0].Data[len(got):n]...)
		if err := a.saw(n); err != nil {
			return err
		}
	}
	d := xdr.NewDecoder(c.Args.Stream)
	b := c.Args.Opaque(&d, maxOpaque)
	if !bytes.Equal(got, b) {
		return errors.New("the data has changed after it arrived")
	}
	for _, v := range []uint32{uint32(len(got)), crc32.ChecksumIEEE(got), d.Uint32()} {
		r.Stream = xdr.AppendUint32(r.Stream, v)
	}
	return nil
}

// TestEarly: long items are served while they arrive, short ones when they are there.
func TestEarly(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var sizes []int
		b := newBed(t, p, bedConfig{early: true, handler: arriving{saw: func(n int) error {
			sizes = append(sizes, n)
			return nil
		}}})
		c, server := b.dial(nil)
		reads := uint64(0)
		for _, size := range []int{10, 60_000, 512<<10 - 1, 512 << 10, 1<<20 - 3, 1 << 20} {
			sizes = nil
			if err := writeOut(b.ctx, c, size, 1); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
			early := size >= 512<<10 && !p.Device().Attr().ReadSinkRemoteWrite
			if early != (len(sizes) > 0) || early && sizes[len(sizes)-1] != size {
				t.Errorf("%d bytes: arrived %v", size, sizes)
			}
			now, want := server.Stats().RDMAReads, uint64(1)
			if early {
				want = uint64(size+256<<10-1) >> 18
			}
			if size < 4096 {
				want = 0
			}
			if now-reads != want {
				t.Errorf("%d bytes: %d RDMA Reads", size, now-reads)
			}
			reads = now
		}
	})
}

// slowReads is a fabric on which each RDMA Read takes twice the delay, one after the other.
func slowReads(delay time.Duration) *loopback.Provider {
	return loopback.New(loopback.Config{MaxReads: 1, Network: loopback.FabricConfig{Transport: loopback.InfiniBand, Delay: delay}})
}

// TestEarlyTimes: a service has each part as soon as it was read.
func TestEarlyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		var began time.Time
		b := newBed(t, slowReads(time.Millisecond), bedConfig{early: true, timeout: time.Hour, handler: arriving{saw: func(n int) error {
			if n == 0 {
				began = time.Now()
			}
			seen = append(seen, fmt.Sprintf("%v %d", time.Since(began), n>>10))
			return nil
		}}})
		c, _ := b.dial(nil)
		for range 2 { // the second is the only one, which a leader would serve
			seen = nil
			must(t, writeOut(b.ctx, c, 1<<20, 1))
			if want := []string{"0s 0", "2ms 256", "4ms 512", "6ms 768", "8ms 1024"}; !slices.Equal(seen, want) {
				t.Errorf("arrived at %v, want %v", seen, want)
			}
		}
	})
}

// TestEarlyFails: a call whose service fails while items arrive keeps its memory until all
// Reads have completed, and is answered then.
func TestEarlyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan time.Time, 1)
		b := newBed(t, slowReads(time.Second), bedConfig{early: true, timeout: time.Hour, handler: arriving{saw: func(n int) error {
			if n < 512<<10 {
				return nil
			}
			failed <- time.Now()
			return errService
		}}})
		c, server := b.dial(nil)
		must(t, echo(b.ctx, c, 100, 1))
		done := begin(func() error { return writeOut(b.ctx, c, 1<<20, 1) })
		at := <-failed
		time.Sleep(time.Second)
		synctest.Wait()
		if got := b.charged(); got.fetches != 1<<20 || len(done) > 0 {
			t.Errorf("%+v, %d answered while Reads are under way", got, len(done))
		}
		if _, ok := errors.AsType[*oncrpc.AcceptError](<-done); !ok || time.Since(at) < 4*time.Second {
			t.Errorf("answered after %v", time.Since(at))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.charged(); got.fetches != 0 || server.Err() != nil {
			t.Errorf("%+v, %v", got, server.Err())
		}
		should(t, writeOut(b.ctx, c, 60_000, 2))
	})
}

// TestEarlyEnds: a connection that ends while items arrive leaves nothing.
func TestEarlyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		b := newBed(t, slowReads(time.Second), bedConfig{early: true, timeout: time.Hour, handler: arriving{saw: func(n int) error {
			if n == 256<<10 {
				close(started)
			}
			return nil
		}}})
		c, server := b.dial(nil)
		done := begin(func() error { return writeOut(b.ctx, c, 1<<20, 1) })
		<-started
		should(t, server.Close())
		if err := <-done; err == nil {
			t.Error("answered")
		}
		if got := b.charged(); got != (charged{}) {
			t.Errorf("%+v", got)
		}
	})
}

// Package bench loads a server with calls over one RPC-over-RDMA connection, checks every
// answer, and measures.
package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Limits of a run.
const (
	MaxSize   = 1 << 20   // bytes of payload per call
	MaxDepth  = 1024      // calls in flight
	MaxMemory = 128 << 20 // bytes of payload in flight
)

// Config describes a run.
type Config struct {
	Op       Op
	Size     int            // bytes of payload per call
	Room     int            // bytes that a read has room for, if they are more
	Depth    int            // calls in flight
	Calls    int            // calls to make, 0 for as many as fit
	Duration time.Duration  // after it no call begins
	Timeout  time.Duration  // how long calls may still take then
	Program  target.Program // that null calls
	// Progress, if not nil, is called several times a second.
	Progress func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Elapsed     time.Duration
	Ops, Errors uint64
}

// progressEvery is the time between two calls of Progress.
const progressEvery = 200 * time.Millisecond

// run is a run in progress.
type run struct {
	cfg    *Config
	client *rpcrdma.Client
	calls  context.Context // that calls are made with
	stop   atomic.Bool     // begin no more calls
	begun  atomic.Int64    // calls, when they are counted

	ops, errors atomic.Uint64
	latency     histogram.Histogram // ns
	longest     atomic.Int64        // ns

	first    sync.Once
	firstErr error
	lost     atomic.Bool // the connection ended by itself
}

// Run makes calls until all are made, the duration is over, or ctx or the connection ends.
// Before that it makes one call that is not counted, to check that the server can serve the
// others. Only the error of this call is returned.
func Run(ctx context.Context, t *target.Target, cfg Config) (*Result, error) {
	makers := make([]*maker, 0, cfg.Depth)
	defer func() {
		for _, m := range makers {
			m.release()
		}
	}()
	for i := range cfg.Depth {
		m, err := newMaker(ctx, t.Client, &cfg, i)
		makers = append(makers, m)
		if err != nil {
			return nil, err
		}
	}
	if err := try(ctx, t, &cfg, makers[0]); err != nil {
		return nil, err
	}
	return measure(ctx, t.Client, &cfg, makers), nil
}

// try makes one call.
func try(ctx context.Context, t *target.Target, cfg *Config, m *maker) error {
	within, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	err := t.Call(within, &m.call)
	if err == nil {
		if err = m.check(); err != nil {
			return fmt.Errorf("%s: %w", t.Address, err)
		}
		return nil
	}
	p := target.Program{Number: m.call.Program, Version: m.call.Version}
	err = t.Explain(ctx, p, cfg.Timeout, err)
	if errors.As(err, new(*target.NotServedError)) && cfg.Op != Null {
		err = fmt.Errorf("%w: op null would do", err)
	}
	return err
}

// measure runs a worker for each call in flight.
func measure(ctx context.Context, c *rpcrdma.Client, cfg *Config, makers []*maker) *Result {
	// The workers' calls outlive ctx, so that what is in flight is counted.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &run{cfg: cfg, client: c, calls: calls}
	before, began := c.Stats(), time.Now()
	over := make(chan struct{})
	var workers, watcher sync.WaitGroup
	for _, m := range makers {
		workers.Go(func() { r.work(m) })
	}
	watcher.Go(func() { r.watch(ctx, began, over, cancel) })
	workers.Wait()
	elapsed := time.Since(began)
	close(over)
	watcher.Wait()
	return r.result(elapsed, &before, new(c.Stats()))
}

// next says whether a worker makes another call: one at least, unless the
// calls are counted and others make them all.
func (r *run) next(first bool) bool {
	if !first && r.stop.Load() {
		return false
	}
	return r.cfg.Calls == 0 || r.begun.Add(1) <= int64(r.cfg.Calls)
}

// work makes one call after the other.
func (r *run) work(m *maker) {
	for first := true; r.next(first); first = false {
		if m.before != nil {
			m.before()
		}
		began := time.Now()
		err := r.client.Call(r.calls, &m.call)
		took := time.Since(began)
		if err == nil {
			err = m.check()
		}
		if err != nil {
			r.errors.Add(1)
			r.first.Do(func() { r.firstErr = err })
			if gone(err) {
				r.lost.Store(true)
				return
			}
			continue
		}
		r.latency.Record(uint64(took))
		r.ops.Add(1)
		for longest := r.longest.Load(); int64(took) > longest && !r.longest.CompareAndSwap(longest, int64(took)); {
			longest = r.longest.Load()
		}
	}
}

// gone says whether a call failed because there is no connection any more.
func gone(err error) bool {
	var lost *rpcrdma.Error
	return errors.As(err, &lost) || errors.Is(err, rpcrdma.ErrClosed)
}

// watch reports progress until over, and ends the run.
func (r *run) watch(ctx context.Context, began time.Time, over <-chan struct{}, cancel func()) {
	end := time.NewTimer(r.cfg.Duration)
	defer end.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	ending := func() {
		if !r.stop.Swap(true) {
			end.Reset(r.cfg.Timeout) // for calls in flight
		}
	}
	interrupted, disconnected := ctx.Done(), r.client.Done()
	for {
		select {
		case <-over:
			return
		case <-interrupted:
			interrupted = nil
			ending()
		case <-disconnected:
			disconnected = nil
			r.lost.Store(true)
			ending()
		case <-end.C:
			if r.stop.Load() {
				cancel()
				continue
			}
			ending()
		case <-tick.C:
			if r.cfg.Progress != nil {
				r.cfg.Progress(Progress{time.Since(began), r.ops.Load(), r.errors.Load()})
			}
		}
	}
}

// result sums up.
func (r *run) result(elapsed time.Duration, before, after *rpcrdma.Stats) *Result {
	info := r.client.Info()
	res := &Result{
		Op: r.cfg.Op, Size: r.cfg.Size, Depth: r.cfg.Depth, RPCVersion: info.RPCVersion, CreditsGranted: info.CreditsGranted,
		Ops: r.ops.Load(), Errors: r.errors.Load(), Elapsed: elapsed, FirstError: r.firstErr, Lost: r.lost.Load(),
	}
	r.latency.Snapshot(&res.Histogram)
	longest := time.Duration(r.longest.Load())
	quantile := func(q float64) float64 { return Micros(min(time.Duration(res.Histogram.Quantile(q)), longest)) }
	res.LatencyUS = Latency{P50: quantile(0.5), P99: quantile(0.99), Max: Micros(longest)}
	if s := elapsed.Seconds(); s > 0 {
		res.OpsPerSecond = round(float64(res.Ops) / s)
		res.BytesPerSecond = round(float64(res.Ops) * float64(r.cfg.Size) / s)
	}
	res.PerOp = perOp(before, after, res.Ops+res.Errors)
	return res
}

package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// operations watches the rig's connections.
func (r *rig) operations() *trace.Watcher {
	r.t.Helper()
	w, err := r.d.Tracing().Watch(trace.Filter{}, trace.Snap{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(w.Close)
	return w
}

// written waits until RDMA Writes of n bytes or more in all have left.
func written(ctx context.Context, w *trace.Watcher, n int) error {
	for n > 0 {
		e, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if e.Op == verbs.OpRDMAWrite {
			n -= e.Length
		}
	}
	return nil
}

// bigRead is a COMPOUND with a READ of up to most bytes for each write chunk, each between
// other operations.
func bigRead(t *testing.T, c *rpcrdma.Client, chunks, most int) *rpcrdma.Call {
	t.Helper()
	call := &rpcrdma.Call{Program: nfsProgram, Version: 4, Procedure: 1, MaxReply: 512}
	ops := []any{}
	for range chunks {
		buf, err := c.Alloc(t.Context(), most)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(buf.Release)
		call.Results = append(call.Results, rpcrdma.Result{Buf: buf, Max: most})
		ops = append(ops, 24, readOp(most), 24) // PUTROOTFH, READ, PUTROOTFH
	}
	call.Args = compound(3*chunks, ops...)
	return call
}

// TestCutThrough: an upstream that holds back the rest of a reply until the client has the
// first part of the data. The reply is whole in the end, or the client learns that it is not.
func TestCutThrough(t *testing.T) {
	const size = 512 << 10
	data, small := random(size-1), random(100)
	read := enc(0, 0, len(data), 1, string(data))
	two := results(0, 6, 24, 0, gotRead(data), 24, 0, 24, 0, gotRead(data), 24, 0)
	mixed := results(0, 6, 24, 0, gotRead(small), 24, 0, 24, 0, gotRead(data), 24, 0)
	system := &oncrpc.AcceptError{Stat: oncrpc.SystemErr}
	for name, c := range map[string]struct {
		results []byte
		chunks  int // of a COMPOUND; 0 is an NFSv3 READ
		step    int // fragments of the record; 0 is one
		rest    func(p *peer, rest []byte)
		bad     error // what the client gets in place of the data
		lost    bool  // the connection ends
		want    [][]byte
	}{
		"whole":         {results: read, want: [][]byte{data}},
		"in fragments":  {results: read, step: 10_000, want: [][]byte{data}},
		"two of a call": {results: two, chunks: 2, want: [][]byte{data, data}},
		"second of two": {results: mixed, chunks: 2, want: [][]byte{small, data}},
		"torn":          {results: read, rest: func(p *peer, _ []byte) { p.Close() }, lost: true},
		"torn later":    {results: read, rest: func(p *peer, rest []byte) { p.write(rest[:100_000]); p.Close() }, lost: true},
		"too short":     {results: read[:len(read)-1000], step: 1000, bad: system},
		"failed second": {results: slices.Concat(two[:len(two)-200_000], enc(1, 2, 3)), step: 1000, chunks: 2, bad: system},
	} {
		if c.rest == nil {
			c.rest = (*peer).write
		}
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				u := newUpstream(t)
				r := newRig(t, p, u.address)
				client := r.dial()
				up := u.accept()
				w := r.operations()
				call := readSome(t, client, size)
				if c.chunks > 0 {
					call = bigRead(t, client, c.chunks, size)
				}
				said := make(chan struct{})
				go func() {
					defer close(said)
					msg := record(success(up.call().XID, c.results), c.step)
					up.write(msg[:len(msg)/2])
					if err := written(t.Context(), w, 1); err != nil {
						t.Error(err)
					}
					c.rest(up, msg[len(msg)/2:])
				}()
				err := client.Call(t.Context(), call)
				<-said
				_, accepted := errors.AsType[*oncrpc.AcceptError](err)
				switch {
				case c.lost:
					if err == nil || accepted {
						t.Errorf("answered with %v", err)
					}
					if why := r.down(); !strings.Contains(why, "unexpected EOF") {
						t.Errorf("the connection ended for %q", why)
					}
					return
				case c.bad != nil:
					if err == nil || err.Error() != c.bad.Error() {
						t.Errorf("%v, want %v", err, c.bad)
					}
				case err != nil:
					t.Error(err)
				}
				for i, want := range c.want {
					res := &call.Results[i]
					if !bytes.Equal(res.Buf.Bytes()[:res.Apart], want) {
						t.Errorf("result %d: %d bytes of %d, or others", i, res.Apart, len(want))
					}
				}
				go func() { up.send(success(up.call().XID), 0) }()
				if err := client.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
					t.Errorf("the next call: %v", err)
				}
				if s := r.Stats(); s.Lost != 0 || s.BadReplies > 0 != (c.bad != nil) {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// arrival has the items of a call arrive as a test says.
type arrival struct{ there chan int }

// Wait implements oncrpc.Arrival.
func (a *arrival) Wait(ctx context.Context, n int) (int, error) {
	select {
	case have := <-a.there:
		return have, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// stream keeps what is written to an upstream in memory.
type stream struct {
	mu    sync.Mutex
	grown sync.Cond
	all   []byte
}

func newStream(nc *scriptConn) *stream {
	s := new(stream)
	s.grown.L = &s.mu
	nc.wrote = func(b []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, b...)
		s.grown.Broadcast()
	}
	return s
}

// wait waits for n bytes in all, and gives what there is.
func (s *stream) wait(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) < n {
		s.grown.Wait()
	}
	return bytes.Clone(s.all)
}

// twoWrites are the arguments of a COMPOUND of two WRITEs, each with an item of its own.
func twoWrites(first, second []byte) oncrpc.Payload {
	p := oncrpc.Payload{Stream: compound(2, writeOp(len(first)))}
	p.Items = append(p.Items, oncrpc.Item{Pos: len(p.Stream), Data: first})
	p.Stream = append(p.Stream, writeOp(len(second))...)
	p.Items = append(p.Items, oncrpc.Item{Pos: len(p.Stream), Data: second})
	return p
}

// told is where a reply's Filled goes.
type told chan int

func (c told) Filled(n int) { c <- n }

// TestParts: a part of a result goes on when it is enough, and a smaller one when the upstream
// pauses.
func TestParts(t *testing.T) {
	nc := newScriptConn()
	nc.next = make(chan []byte, 8)
	f := New(Config{})
	f.least, f.enough = 4, 8
	s := newSession(f, netip.AddrPort{}, nc)
	defer s.Close()
	data, filled, sent := random(40), make(told, 8), make(chan struct{})
	wrote := sync.OnceFunc(func() { close(sent) })
	nc.wrote = func([]byte) { wrote() }
	call := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 3, Procedure: 6, Args: oncrpc.Payload{Stream: enc("handle42", 0, 0, len(data))}}
	reply := &oncrpc.Reply{Mem: new(memory), Ahead: filled}
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), s, call, reply) }()
	<-sent
	at := 0
	come := func(pieces ...int) {
		for _, n := range pieces {
			nc.next <- data[at : at+n]
			at += n
		}
	}
	msg := record(success(1, enc(0, 0, len(data), 1, string(data))), 0)
	nc.next <- msg[:len(msg)-len(data)]
	for _, step := range []struct {
		pieces []int
		final  int
	}{
		{[]int{7}, 7},     // and the upstream pauses
		{[]int{3, 2}, 12}, // first too little to go on
		{[]int{9}, 21},    // enough
	} {
		come(step.pieces...)
		if n := <-filled; n != step.final {
			t.Errorf("%d bytes went on, want %d", n, step.final)
		}
	}
	come(2, 1)    // never enough
	come(40 - at) // the rest goes with the reply
	if err := <-done; err != nil || !bytes.Equal(reply.Items[0].Buf.Bytes()[:len(data)], data) {
		t.Errorf("%v, or other data", err)
	}
	if len(filled) > 0 {
		t.Errorf("%d bytes went on with the reply", <-filled)
	}
	reply.Release()
}

// TestCallArrives: of a call whose items arrive, the upstream gets what is there: nothing
// before the first data, and no byte that is not there.
func TestCallArrives(t *testing.T) {
	nc := newScriptConn()
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	up := newStream(nc)
	first, second := random(1001), random(2000)
	call := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 4, Procedure: 1, Args: twoWrites(first, second)}
	wanted := slices.Concat(compound(2, writeOp(len(first))), first, make([]byte, 3), writeOp(len(second)), second)
	want := record(slices.Concat(oncrpc.AppendCall(nil, call), wanted), 0)
	head := len(want) - len(wanted) + len(compound(2, writeOp(len(first))))
	next := head + len(first) + 3 + len(writeOp(len(second)))
	a := &arrival{make(chan int)}
	call.Arrival = a
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), s, call, &oncrpc.Reply{Mem: new(memory)}) }()
	for _, step := range []struct{ there, written int }{
		{1, head + 1}, {1000, head + 1000}, {1001, next}, {1500, next + 499}, {3001, len(want)},
	} {
		a.there <- step.there
		if got := up.wait(step.written); !bytes.Equal(got, want[:step.written]) {
			t.Fatalf("%d bytes are there: the upstream has %d, or others, want %d", step.there, len(got), step.written)
		}
	}
	nc.next <- record(success(1, results(0, 2, 38, 0, len(first), 2, 7, 8, 38, 0, len(second), 2, 7, 8)), 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestCallStopsArriving: a call whose client goes away while its items arrive ends the
// upstream's connection, in the middle of a record. That is no loss of the upstream.
func TestCallStopsArriving(t *testing.T) {
	nc := newScriptConn()
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	s.stop = func() bool { return true } // the goroutine that sends is the first to see the client's end
	up := newStream(nc)
	ctx, cancel := context.WithCancel(t.Context())
	a := &arrival{make(chan int)}
	call := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 4, Procedure: 1, Args: twoWrites(random(1000), random(1000)), Arrival: a}
	done := make(chan error, 1)
	go func() { done <- serve(ctx, s, call, &oncrpc.Reply{Mem: new(memory)}) }()
	a.there <- 10
	up.wait(10)
	cancel()
	<-nc.closed
	s.clientGone()
	if err := <-done; err == nil {
		t.Error("answered")
	}
	s.Close()
	if s := s.Stats(); s.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

// TestWritesInParts: WRITEs whose data is read in several RDMA Reads, several at once, with
// other calls between them.
func TestWritesInParts(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, dir := nfsUpstream(t)
		r := newRig(t, p, address)
		n := newNFSClient(t, r.dial())
		var all sync.WaitGroup
		for i := range 6 {
			h := n.create(fmt.Sprintf("file%d", i))
			all.Go(func() {
				data := random(1<<20 - i)
				for range 3 {
					n.write(h, 0, data)
					n.lookup(fmt.Sprintf("file%d", i))
				}
				if got, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("file%d", i))); err != nil || !bytes.Equal(got, data) {
					t.Errorf("file %d: %d bytes, %v", i, len(got), err)
				}
			})
		}
		all.Wait()
		if n := r.d.Connections()[0].Stats.RDMAReads; n != 6*3*4 {
			t.Errorf("%d RDMA Reads", n)
		}
	})
}

package connector

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestScarceMemory: clients that together want more memory than there is wait for each other,
// but not forever.
func TestScarceMemory(t *testing.T) {
	e := newExportWith(t, newLoopback(t), Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Memory: MinMemory}}, ClientMemory: MinMemory})
	h := e.create("file")
	const size = 700_000
	data := make([]byte, size)
	write := append(nfstest.WriteArgs(h, 0, size, nfstest.Unstable), data...)
	read := nfstest.ReadArgs(h, 0, size)
	if err := e.write(h, 0, data); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		c := e.dial(rpctcp.ClientConfig{MaxCalls: 8, Cred: e.cred})
		for i := range 8 {
			wg.Go(func() {
				proc, args := uint32(procRead), read
				if i%2 == 0 {
					proc, args = procWrite, write
				}
				if _, err := c.Call(t.Context(), nfs.Program, 3, proc, args, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

// heapBuffer is memory of the Go heap.
type heapBuffer []byte

func (b heapBuffer) Bytes() []byte { return b }
func (heapBuffer) Release()        {}

// reads answers NULL, and READ with 1 MiB that is not memory of the process.
var reads = handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure == procRead {
		r.Stream = append(r.Stream, make([]byte, 2*xdr.Unit)...) // no attributes
		for _, n := range []uint32{readSize, 1, readSize} {
			r.Stream = xdr.AppendUint32(r.Stream, n)
		}
		r.AppendItem(make(heapBuffer, readSize), readSize)
	}
	return nil
})

const readSize = 1 << 20

// TestNewcomerGetsMemory: when busy clients use all memory of the process, another one gets some.
func TestNewcomerGetsMemory(t *testing.T) {
	const clients, depth = 3, 4
	r := newRig(t, newLoopback(t), reads, Config{})
	connect := func() *rpctcp.Client {
		c := r.dial(rpctcp.ClientConfig{MaxCalls: depth})
		if _, err := c.Call(t.Context(), nfs.Program, 3, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
		return c
	}
	read := func(c *rpctcp.Client) {
		if _, err := c.Call(t.Context(), nfs.Program, 3, procRead, nfstest.ReadArgs([]byte("file"), 0, readSize), nil); err != nil {
			t.Error(err)
		}
	}
	var busy []*rpctcp.Client
	for range clients {
		busy = append(busy, connect())
	}
	newcomer := connect()
	offheap.SetLimit(offheap.Read().Used + (clients*depth-3)*readSize)
	defer offheap.SetLimit(math.MaxInt64)
	var calls atomic.Int32
	var stop atomic.Bool
	warm := make(chan struct{})
	var wg sync.WaitGroup
	for _, c := range busy {
		for range depth {
			wg.Go(func() {
				for !stop.Load() {
					read(c)
					if calls.Add(1) == 2*clients*depth {
						close(warm)
					}
				}
			})
		}
	}
	<-warm
	read(newcomer)
	stop.Store(true)
	wg.Wait()
}

// TestBusyClientGivesWay: when there is only the memory that is kept for the connector, a client that always has
// calls in flight does not keep it from another one.
func TestBusyClientGivesWay(t *testing.T) {
	const depth = 4
	var last atomic.Pointer[chan struct{}]
	r := newRig(t, newLoopback(t), handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		if c.Procedure == procRead { // it ends when the next has begun, if there is one
			next := make(chan struct{})
			if p := last.Swap(&next); p != nil {
				close(*p)
			}
			select {
			case <-next:
			case <-time.After(200 * time.Millisecond):
			}
		}
		return reads(ctx, c, r)
	}), Config{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	call := func(c *rpctcp.Client, proc uint32, args []byte) error {
		_, err := c.Call(ctx, nfs.Program, 3, proc, args, nil)
		return err
	}
	read := nfstest.ReadArgs([]byte("file"), 0, readSize)
	busy, other := r.dial(rpctcp.ClientConfig{MaxCalls: depth}), r.dial(rpctcp.ClientConfig{})
	for _, c := range []*rpctcp.Client{busy, other} {
		if err := call(c, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	memory := offheap.Read()
	offheap.SetLimit(memory.Used + 2*memory.Kept)
	defer offheap.SetLimit(math.MaxInt64)
	for {
		others, err := offheap.Alloc(64 << 10)
		if err != nil {
			break
		}
		defer others.Free()
	}
	var calls atomic.Int32
	var stop atomic.Bool
	warm := make(chan struct{})
	var wg sync.WaitGroup
	for range depth {
		wg.Go(func() {
			for !stop.Load() {
				if err := call(busy, procRead, read); err != nil {
					t.Error(err)
				}
				if calls.Add(1) == 4*depth {
					close(warm)
				}
			}
		})
	}
	<-warm
	if err := call(other, procRead, read); err != nil {
		t.Error(err)
	}
	stop.Store(true)
	wg.Wait()
}

// TestAnswerDoesNotGiveWay: a client whose call waits for its answer to a callback does not have to leave the memory that
// is kept for the connector before that answer is read, although another client wants it. Calls may come before the answer.
func TestAnswerDoesNotGiveWay(t *testing.T) {
	for name, before := range map[string]bool{"an answer": false, "a call and an answer": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { answerWithoutWay(t, before) }) })
	}
}

// answerWithoutWay is TestAnswerDoesNotGiveWay. before says whether a call comes before the answer.
func answerWithoutWay(t *testing.T, before bool) {
	const waits, plain, null uint32 = 1 << 30, 2 << 30, 3 << 30 // XIDs
	began, answered := make(chan struct{}), make(chan struct{})
	var p pipes
	r, target := newCallerWith(t, newLoopback(t), Config{Connector: spec.Connector{CallbackTimeout: 10 * time.Second}},
		func(r *rig) { r.around = p.around },
		handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			if c.Procedure == procRead && c.XID == waits {
				close(began)
				select {
				case <-answered:
				case <-ctx.Done():
				}
			}
			return reads(ctx, c, r)
		}))
	nc := p.dial(t)
	back := <-target.conns
	other := rpctcp.NewClient(p.dial(t), rpctcp.ClientConfig{MaxRecord: 2 * readSize})
	defer other.Close()
	<-target.conns
	read := nfstest.ReadArgs([]byte("file"), 0, readSize)
	calls := func(xid, proc uint32, args []byte) []byte {
		call := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: nfs.Program, Version: 3, Procedure: proc})
		return frame(append(call, args...))
	}
	records := oncrpc.NewRecordReader(nc, 2*readSize)
	next := func() (xid uint32) {
		t.Helper()
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		msg, err := records.Read(nil)
		if err != nil {
			t.Fatal(err)
		}
		xid, _, _ = oncrpc.MessageType(msg)
		return xid
	}
	if _, err := nc.Write(calls(null, 0, nil)); err != nil { // before its answer there is one credit
		t.Fatal(err)
	}
	next()
	if _, err := other.Call(t.Context(), nfs.Program, 3, 0, nil, nil); err != nil {
		t.Fatal(err)
	}
	memory := offheap.Read()
	offheap.SetLimit(memory.Used + 2*memory.Kept)
	defer offheap.SetLimit(math.MaxInt64)
	for {
		others, err := offheap.Alloc(64 << 10)
		if err != nil {
			break
		}
		defer others.Free()
	}
	if _, err := nc.Write(calls(waits, procRead, read)); err != nil {
		t.Fatal(err)
	}
	<-began
	ended := make(chan error, 1)
	go func() {
		_, err := other.Call(t.Context(), nfs.Program, 3, procRead, read, nil)
		ended <- err
	}()
	synctest.Wait()
	if !r.c.reserve.Wanted() {
		t.Fatalf("there is memory: %+v", offheap.Read())
	}
	answer := make(chan uint32)
	go func() {
		if before {
			_, _ = nc.Write(calls(plain, procRead, read))
		}
		_, _ = nc.Write(frame(oncrpc.AppendAcceptedReply(nil, <-answer)))
	}()
	synctest.Wait()
	called := make(chan error, 1)
	go func() { called <- back.Call(t.Context(), newCall(1, nil)) }()
	answer <- next()
	if err := <-called; err != nil {
		t.Error(err)
	}
	close(answered)
	next()
	if before {
		next()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestProbeWithoutMemory: a probe that fails because the process may have no more memory says so.
func TestProbeWithoutMemory(t *testing.T) {
	r := newRig(t, newLoopback(t), reads, Config{})
	offheap.SetLimit(offheap.Read().Used)
	connected, err := r.c.Probe(t.Context())
	offheap.SetLimit(math.MaxInt64)
	if connected || !errors.Is(err, offheap.ErrLimit) {
		t.Errorf("connected: %v, %v", connected, err)
	}
	if connected, err := r.c.Probe(t.Context()); !connected || err != nil {
		t.Errorf("with memory, connected: %v, %v", connected, err)
	}
}

// TestProbeWithoutMemoryForCall: so does a probe that has no more memory once its connection is up.
func TestProbeWithoutMemoryForCall(t *testing.T) {
	r := newRig(t, filling{newLoopback(t)}, reads, Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	connected, err := r.c.Probe(ctx)
	offheap.SetLimit(math.MaxInt64)
	if !connected || !errors.Is(err, offheap.ErrLimit) {
		t.Errorf("connected: %v, %v", connected, err)
	}
}

// TestProbeWhileOthersFree: it says so also if others free memory, and take it, while its connection is given up.
func TestProbeWhileOthersFree(t *testing.T) {
	r := newRig(t, freeing{newLoopback(t)}, reads, Config{})
	offheap.SetLimit(offheap.Read().Used)
	connected, err := r.c.Probe(t.Context())
	offheap.SetLimit(math.MaxInt64)
	if connected || !errors.Is(err, offheap.ErrLimit) {
		t.Errorf("connected: %v, %v", connected, err)
	}
}

// freeing is a provider during whose end of a queue pair others free memory of the process, and take it.
type freeing struct{ rdmacm.Provider }

func (p freeing) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	return freeingID{id}, err
}

type freeingID struct{ rdmacm.ID }

func (id freeingID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	qp, err := id.ID.CreateQP(pd, attr)
	return freeingQP{qp}, err
}

type freeingQP struct{ verbs.QP }

func (qp freeingQP) Close() error {
	offheap.SetLimit(offheap.Read().Used)
	return qp.QP.Close()
}

// filling is a provider whose connections come up when the process may have no more memory.
type filling struct{ rdmacm.Provider }

func (p filling) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	return fillingID{id}, err
}

type fillingID struct{ rdmacm.ID }

func (id fillingID) Connect(ctx context.Context, p rdmacm.ConnParam) error {
	err := id.ID.Connect(ctx, p)
	offheap.SetLimit(offheap.Read().Used)
	return err
}

// pipes is a listener that accepts one end of each net.Pipe that dial makes: no sockets, so that a test can
// run under synctest's clock.
type pipes struct {
	net.Listener
	r     *rig
	conns chan net.Conn
}

// newPiped makes a rig over loopback whose connector listens on pipes.
func newPiped(t *testing.T, handler oncrpc.Handler, cfg Config) *pipes {
	p := &pipes{r: newTargetless(t, newLoopback(t))}
	p.r.listen(handler, &cfg)
	p.r.around = p.around
	p.r.connect(cfg)
	return p
}

// around makes p the listener of a rig's connector.
func (p *pipes) around(l net.Listener) net.Listener {
	p.Listener, p.conns = l, make(chan net.Conn)
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	if nc, ok := <-p.conns; ok {
		return pipe{nc}, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener. It is called once.
func (p *pipes) Close() error {
	close(p.conns)
	return p.Listener.Close()
}

func (p *pipes) dial(t *testing.T) net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	t.Cleanup(func() { ours.Close() })
	return ours
}

// pipe is an end of a net.Pipe with an address.
type pipe struct{ net.Conn }

func (pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestSlowClientAtProcessLimit: a client that makes too little progress loses memory of the process for which
// others wait. Its own calls may wait for what it holds.
func TestSlowClientAtProcessLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPiped(t, reads, Config{})
		slow, other := p.dial(t), rpctcp.NewClient(p.dial(t), rpctcp.ClientConfig{MaxRecord: 2 * readSize})
		defer other.Close()
		if _, err := other.Call(t.Context(), nfs.Program, 3, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
		send := func(xid, proc uint32, args []byte) {
			call := oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: nfs.Program, Version: 3, Procedure: proc})
			if _, err := slow.Write(frame(append(call, args...))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send(1, 0, nil)
		answers := oncrpc.NewRecordReader(slow, readSize)
		if _, err := answers.Next(); err != nil { // before it there is one credit
			t.Fatal(err)
		}
		if _, err := answers.Read(nil); err != nil {
			t.Fatal(err)
		}
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + readSize)
		read := nfstest.ReadArgs([]byte("file"), 0, readSize)
		for xid := range uint32(2) {
			send(2+xid, procRead, read)
		}
		time.Sleep(2 * fair.Grace)
		if n := p.r.c.relief.Cuts(); n != 0 {
			t.Errorf("%d clients lost what only their own calls wait for", n)
		}
		began := time.Now()
		if _, err := other.Call(t.Context(), nfs.Program, 3, procRead, read, nil); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited > fair.Grace {
			t.Errorf("waited %v for a client that is %v behind", waited, 2*fair.Grace)
		}
	})
}

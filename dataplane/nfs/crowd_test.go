package nfs

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// TestCrowd: at most mostInside calls are in at once. Each that waits goes in when one leaves,
// or gives up when its context ends. Afterwards nothing is left.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd()
		var in, entered, gaveUp atomic.Int64
		leave := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for i := range 3 * mostInside {
			with := t.Context()
			if i >= 2*mostInside {
				with = ctx
			}
			calls.Go(func() {
				if !c.enter(with) {
					gaveUp.Add(1)
					return
				}
				entered.Add(1)
				if in.Add(1) > mostInside {
					t.Error("too many are in")
				}
				<-leave
				in.Add(-1)
				c.leave()
			})
		}
		synctest.Wait()
		if in.Load() != mostInside {
			t.Errorf("%d are in", in.Load())
		}
		leave <- struct{}{}
		synctest.Wait()
		if in.Load() != mostInside {
			t.Errorf("%d are in after one has left", in.Load())
		}
		cancel()
		for range 10 {
			leave <- struct{}{}
		}
		close(leave)
		calls.Wait()
		if entered.Load()+gaveUp.Load() != 3*mostInside || gaveUp.Load() == 0 || c.calls.Load() != 0 || len(c.pass) != 0 {
			t.Errorf("%d were in, %d gave up, %d and %d are left", entered.Load(), gaveUp.Load(), c.calls.Load(), len(c.pass))
		}
	})
}

// A READ that waits for memory of its reply is not in the crowd: clients that don't read
// their replies would keep others out. It goes in again before it reads.
func TestWaitsForMemoryOutside(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.write(f, 0, []byte("content"), nfsv3.UNSTABLE)
	waitsOutside(t, x, prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(f), Count: 7}))
}

// The same for READLINK.
func TestReadlinkWaitsOutside(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	must(t, os.Symlink("content", x.path("l")))
	waitsOutside(t, x, prepare(t, c, 5, &nfsv3.Readlink3args{Symlink: fhOf(c.mustLookup(root, "l"))}))
}

// waitsOutside makes a call that gets 7 bytes of memory late.
func waitsOutside(t *testing.T, x *export, p *prepared) {
	t.Helper()
	mem := &stuckMemory{make(chan struct{}), make(chan struct{}), fixedMemory{make(fixedBuffer, 7)}}
	p.reply.Mem = mem
	read := make(chan struct{})
	go func() { defer close(read); p.do(t) }()
	<-mem.asked
	crowd := &x.export.crowd
	if n := crowd.calls.Load(); n != 0 {
		close(mem.give)
		<-read
		t.Fatalf("%d calls are in the crowd", n)
	}
	for range mostInside {
		crowd.enter(t.Context())
	}
	close(mem.give)
	for crowd.calls.Load() <= mostInside {
		runtime.Gosched()
	}
	crowd.leave()
	<-read
	for range mostInside - 1 {
		crowd.leave()
	}
	if n := crowd.calls.Load(); n != 0 {
		t.Errorf("%d calls are left in the crowd", n)
	}
}

// panicMemory panics when it is asked for a buffer.
type panicMemory struct{}

func (*panicMemory) Alloc(context.Context, int) (oncrpc.Buffer, error) { panic("no buffer") }

// A call that panics while it waits for memory is not in the crowd any more.
func TestPanicOutside(t *testing.T) {
	x := serve(t, options{})
	crowd := &x.export.crowd
	r := &request{srv: x.subtree, ctx: t.Context(), reply: &oncrpc.Reply{Mem: &panicMemory{}}, inside: crowd.enter(t.Context())}
	defer func() {
		if n := crowd.calls.Load(); recover() == nil || r.inside || n != 0 {
			t.Errorf("inside: %t, %d calls are left in the crowd", r.inside, n)
		}
	}()
	_, _ = r.alloc(7)
}

// A call whose client goes while it waits stays outside, also when it waits again.
func TestStaysOutside(t *testing.T) {
	x := serve(t, options{})
	crowd := &x.export.crowd
	ctx, gone := context.WithCancel(t.Context())
	r := &request{srv: x.subtree, ctx: ctx, inside: crowd.enter(ctx)}
	r.outside(func() {
		for range mostInside {
			crowd.enter(t.Context())
		}
		gone()
	})
	r.outside(func() {})
	if n := crowd.calls.Load(); r.inside || n != mostInside {
		t.Errorf("inside: %t, %d calls are in the crowd, want the %d others", r.inside, n, mostInside)
	}
}

// A call that waits for the disk is outside, and must go in again before it ends. So others that
// wait for its end must not fill the crowd: copies of the call, and guarded SETATTRs of its file.
func TestOthersWaitForACallOutside(t *testing.T) {
	wrong := &nfsv3.Sattrguard3_TRUE{}
	for name, setup := range map[string]func(c *client) (first, other *prepared){
		"copies": func(c *client) (first, other *prepared) {
			first = prepare(t, c, 9, argsFor(9, c.root()))
			return first, first
		},
		"guarded SETATTR": func(c *client) (first, other *prepared) {
			f := c.mkfile(c.root(), "f")
			right := &nfsv3.Sattrguard3_TRUE{ObjCtime: c.mustAttr(f).Ctime}
			first = prepare(t, c, 2, &nfsv3.Setattr3args{Object: fhOf(f), NewAttributes: withMode(0o600), Guard: right})
			other = prepare(t, c, 2, &nfsv3.Setattr3args{Object: fhOf(f), NewAttributes: withMode(0o666), Guard: wrong})
			other.call.XID = 1000
			return first, other
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
			first, other := setup(x.me())
			x.volatile = false
			empty := x.export.syncs.fill()
			ctx, gone := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			var answered atomic.Int64
			begin := func(ctx context.Context, call oncrpc.Call) {
				calls.Go(func() {
					if err := x.ServeRPC(ctx, &call, &oncrpc.Reply{Mem: x.mem}); err == nil {
						answered.Add(1)
					}
				})
			}
			crowd := &x.export.crowd
			begin(ctx, first.call)
			for x.syncsWaiting() == 0 || crowd.calls.Load() > 0 {
				runtime.Gosched()
			}
			for range mostInside {
				call := other.call
				if other != first {
					other.call.XID++
				}
				begin(t.Context(), call)
			}
			time.Sleep(100 * time.Millisecond) // all others are where they wait
			empty()
			for end := time.Now().Add(10 * time.Second); answered.Load() <= mostInside && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if n := answered.Load(); n <= mostInside {
				t.Errorf("%d of %d calls were answered", n, 1+mostInside)
			}
			gone() // then the first call needs no place
			calls.Wait()
		})
	}
}

// Calls with handles of deleted objects wait for a search outside: it takes long in a large
// export, and one client has enough such handles to keep others out.
func TestSearchWaitsOutside(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	root := c.root()
	var gone []*prepared
	for range mostInside {
		gone = append(gone, prepare(t, c, 1, argsFor(1, c.mkfile(root, "f"))))
		must(t, os.Remove(x.path("f")))
	}
	x.restart()
	l := x.locate.(*byName)
	l.running = true // as while a pass is made
	var calls sync.WaitGroup
	for _, p := range gone {
		calls.Go(func() {
			if err := x.ServeRPC(t.Context(), &p.call, &oncrpc.Reply{Mem: x.mem}); err != nil {
				t.Error(err)
			}
		})
	}
	for n := 0; n < mostInside; runtime.Gosched() {
		l.mu.Lock()
		if l.next != nil {
			n = len(l.next.wanted)
		}
		l.mu.Unlock()
	}
	other := prepare(t, c, 1, argsFor(1, root))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := x.ServeRPC(ctx, &other.call, &oncrpc.Reply{Mem: x.mem}); err != nil {
		t.Errorf("a call for the export's root: %v", err)
	}
	l.passes.Go(l.makePasses) // that pass is over
	calls.Wait()
	if n := x.export.crowd.calls.Load(); n != 0 {
		t.Errorf("%d calls are left in the crowd", n)
	}
}

// syncsWaiting returns how many calls wait for a sync of an object that is open.
func (x *export) syncsWaiting() (n int) {
	for i := range x.cache.shards {
		sh := &x.cache.shards[i]
		sh.Lock()
		for _, o := range sh.objects {
			o.syncs.mu.Lock()
			n += o.syncs.waiting
			o.syncs.mu.Unlock()
		}
		sh.Unlock()
	}
	return n
}

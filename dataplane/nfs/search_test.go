package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
)

// Without open_by_handle_at, thousands of handles are good again after a
// restart, though everything was renamed meanwhile; few passes find them all.
func TestSearchFindsAll(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	root := c.root()
	files := make(map[string][]byte)
	for i := range 10 {
		d := c.mkdir(root, fmt.Sprint("d", i))
		files[fmt.Sprint("d", i)] = d
		for j := range 200 {
			name := fmt.Sprint("f", j)
			files[fmt.Sprint("d", i, "/", name)] = c.mkfile(d, name)
		}
	}
	must(t, x.Close())
	must(t, os.Mkdir(x.path("new"), 0o755))
	for i := range 10 {
		for j := range 200 {
			must(t, os.Rename(x.path(fmt.Sprint("d", i, "/f", j)), x.path(fmt.Sprint("d", 9-i, "/g", i, "-", j))))
		}
	}
	for i := range 10 {
		must(t, os.Rename(x.path(fmt.Sprint("d", i)), x.path(fmt.Sprint("new/", i))))
	}
	x.start()
	var wg sync.WaitGroup
	for name, h := range files {
		wg.Go(func() {
			if _, status := c.getattr(h); status != nfsv3.NFS3_OK {
				t.Errorf("%s: %v", name, nfsv3.Nfsstat3_name[status])
			}
		})
	}
	wg.Wait()
	l := x.locate.(*byName)
	if n := len(l.hint); n != len(files)+1 {
		t.Errorf("%d objects are known, want %d", n, len(files)+1)
	}
}

// What is gone is searched for once.
func TestSearchRemembersTheGone(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	root := c.root()
	mine, others := c.mkfile(root, "mine"), c.mkfile(root, "others")
	l := x.locate.(*byName)
	c.want(12, &nfsv3.Remove3args{Object: in(root, "mine")}, nfsv3.NFS3_OK)
	c.want(1, argsFor(1, mine), nfsv3.NFS3ERR_STALE)
	if !l.end.IsZero() {
		t.Error("a search for what this server has removed itself")
	}
	must(t, os.Remove(x.path("others")))
	x.restart()
	l = x.locate.(*byName)
	c.want(1, argsFor(1, others), nfsv3.NFS3ERR_STALE)
	end := l.end
	if end.IsZero() {
		t.Fatal("no search for what others have removed")
	}
	c.want(1, argsFor(1, others), nfsv3.NFS3ERR_STALE)
	if l.end != end {
		t.Error("a second search for the same")
	}
}

func TestGoneIsBounded(t *testing.T) {
	var g goneSet
	for i := range uint64(3 * maxGone) {
		g.add(i)
		g.add(i)
	}
	if len(g.set) != maxGone || len(g.ring) != maxGone {
		t.Errorf("%d, %d are kept", len(g.set), len(g.ring))
	}
	if g.has(0) || !g.has(3*maxGone-1) {
		t.Error("the wrong ones are kept")
	}
}

// Hints that lead in a circle, or wrong, do no harm.
func TestWrongHints(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	root := c.root()
	f, d := c.mkfile(root, "f"), c.mkdir(root, "d")
	l := x.locate.(*byName)
	top := x.top.handle.Sum()
	for i, spoil := range []func(f, d uint64){
		func(f, d uint64) { l.put(f, hint{d, "x"}); l.put(d, hint{f, "y"}) },
		func(f, d uint64) { l.put(f, hint{f, "x"}); l.put(d, hint{d, "x"}) },
		func(f, d uint64) { l.put(f, hint{d, "none"}); l.put(d, hint{4711, "none"}) },
		func(f, d uint64) { l.put(f, hint{top, "d"}); l.put(d, hint{top, "f"}) },
	} {
		of, err := x.object(f)
		must(t, err)
		od, err := x.object(d)
		must(t, err)
		spoil(of.handle.Sum(), od.handle.Sum())
		for _, o := range []*object{of, od} {
			x.cache.forget(o)
			o.release()
		}
		for proc, h := range map[uint32][]byte{6: f, 16: d} {
			if got := c.status(proc, argsFor(proc, h)); got != nfsv3.NFS3_OK {
				t.Errorf("case %d: %s: %v", i, procedureNames[proc], nfsv3.Nfsstat3_name[got])
			}
		}
	}
}

// The search goes no further than the export.
func TestSearchStaysInside(t *testing.T) {
	x := serve(t, options{byName: true})
	outside := tempDir(t)
	c := x.me()
	f := c.mkfile(c.root(), "f")
	must(t, os.Symlink(outside, x.path("way")))
	must(t, os.Rename(x.path("f"), filepath.Join(outside, "f")))
	x.restart()
	c.want(6, argsFor(6, f), nfsv3.NFS3ERR_STALE)
}

// What could not be looked for may be there: clients try again, or later.
func TestSearchThatIsHindered(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	l := x.locate.(*byName)
	h, _ := fh.FromBytes(f)
	for _, tc := range []struct {
		hidden error
		want   error
		gone   bool
	}{
		{unix.EMFILE, errJukebox, false}, {errEnded, errJukebox, false}, {unix.EACCES, errStale, false},
		{nil, errJukebox, false}, {errStale, errStale, true},
	} {
		if err := l.missing(h.Sum(), tc.hidden); !errors.Is(err, tc.want) || l.isGone(h.Sum()) != tc.gone {
			t.Errorf("%v: %v, gone %v", tc.hidden, err, l.isGone(h.Sum()))
		}
	}
	// Seen again, it is not gone any more.
	c.mustLookup(root, "f")
	if l.isGone(h.Sum()) {
		t.Error("gone, though it was seen")
	}
	var p pass
	for _, err := range []error{unix.ENOENT, unix.ENOTDIR, errAccess} {
		if p.miss(err); p.hidden != nil {
			t.Errorf("%v hides nothing", err)
		}
	}
	p.miss(unix.EMFILE)
	p.miss(unix.EACCES)
	if !errors.Is(p.hidden, unix.EMFILE) {
		t.Errorf("hidden by %v", p.hidden)
	}
	must(t, x.Close())
	if _, err := l.find(x.request(), 4711); !errors.Is(err, errEnded) {
		t.Errorf("after Close: %v", err)
	}
}

// TestSearchForWhatMoves: an object that somebody moves each time that a search has found it is there, also if the
// second search misses it because it is moved meanwhile. The client tries again.
func TestSearchForWhatMoves(t *testing.T) {
	for _, misses := range []bool{false, true} {
		x := serve(t, options{byName: true})
		c := x.me()
		f := c.mkfile(c.root(), "f0")
		x.restart()
		l := x.locate.(*byName)
		h, _ := fh.FromBytes(f)
		id, err := x.codec.Open(&h)
		must(t, err)
		l.running = true // passes are made here
		opened := make(chan error, 1)
		go func() {
			_, err := l.open(x.request(), id)
			opened <- err
		}()
		for i := range 2 {
			var p *pass
			for p == nil {
				runtime.Gosched()
				l.mu.Lock()
				if p = l.next; p != nil && p.wanted[h.Sum()] > 0 {
					l.next = nil
				} else {
					p = nil
				}
				l.mu.Unlock()
			}
			l.run(p)
			must(t, os.Rename(x.path(fmt.Sprint("f", i)), x.path(fmt.Sprint("f", i+1))))
			if misses && i == 1 {
				clear(p.found)
			}
			close(p.ended)
		}
		if err := <-opened; !errors.Is(err, errJukebox) || l.isGone(h.Sum()) {
			t.Errorf("%v, gone: %v, the second search misses it: %v", err, l.isGone(h.Sum()), misses)
		}
		l.mu.Lock()
		l.running = false
		l.mu.Unlock()
		c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
	}
}

// TestHintsAreBounded: hints take a bounded amount of memory, however long the names are.
func TestHintsAreBounded(t *testing.T) {
	l := newByName(nil)
	l.most = 10_000
	for i := range uint64(1000) {
		l.put(i/2, hint{i, strings.Repeat("n", int(i%maxName)+1)})
		total := 0
		for _, h := range l.hint {
			total += h.size()
		}
		if _, ok := l.hint[i/2]; !ok || total != l.bytes || total > l.most {
			t.Fatalf("%d hints, %d bytes, counted as %d; the newest is there: %v", len(l.hint), total, l.bytes, ok)
		}
	}
	if len(l.hint) < 20 {
		t.Errorf("only %d hints are left", len(l.hint))
	}
}

// TestSearchIsBounded: a search remembers a bounded number of directories. A file in one that was left
// out does not count as gone. A later search finds it.
func TestSearchIsBounded(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	var files [][]byte
	for i := range 20 {
		d := c.mkdir(c.root(), fmt.Sprint("d", i))
		files = append(files, c.mkfile(d, "f"))
	}
	x.restart()
	l := x.locate.(*byName)
	l.mostTodo = 4
	l.running = true // passes are made here
	passes := 0
	for _, f := range files {
		h, _ := fh.FromBytes(f)
		sum := h.Sum()
		for {
			p := l.join(sum)
			l.run(l.begin())
			l.leave(p, sum)
			if passes++; passes > 10_000 {
				t.Fatal("not found")
			}
			if _, ok := p.found[sum]; ok {
				break
			}
			if !errors.Is(l.missing(sum, p.hidden), errJukebox) || p.left != 16 {
				t.Fatalf("not found: %v, %d directories are left out", p.hidden, p.left)
			}
		}
	}
	if passes < 20+5 {
		t.Errorf("all found in %d passes", passes)
	}
	p := new(pass)
	for range 100 {
		if p.add(new(place), 7); len(p.todo) > 7 {
			t.Fatalf("%d directories are remembered", len(p.todo))
		}
	}
}

// watched is a context that says when somebody waits for its end.
type watched struct {
	context.Context
	waits chan struct{}
}

func (w *watched) Done() <-chan struct{} {
	close(w.waits)
	return w.Context.Done()
}

// TestSearchEndsWithItsClient: a call whose client is gone waits for no search, and no pass is made for
// it.
func TestSearchEndsWithItsClient(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	must(t, os.Remove(x.path("f")))
	x.restart()
	l := x.locate.(*byName)
	before := time.Now()
	l.end, l.took = before, time.Hour // the next pass begins later
	ctx, cancel := context.WithCancel(t.Context())
	r := x.request()
	w := &watched{ctx, make(chan struct{})}
	r.ctx = w
	got := make(chan error, 1)
	go func() {
		_, err := r.object(f)
		got <- err
	}()
	<-w.waits
	cancel()
	if err := <-got; !errors.Is(err, errJukebox) {
		t.Errorf("%v", err)
	}
	must(t, x.Close())
	if l.end != before {
		t.Error("a pass was made for no call")
	}
}

// TestSearchThatClientMissed: the client of a call goes at the end of a pass that did not find the object,
// which was moved meanwhile. Other calls find it.
func TestSearchThatClientMissed(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	x.restart()
	l := x.locate.(*byName)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := x.request()
	r.ctx = ctx
	p := &pass{wanted: make(map[uint64]int), ended: make(chan struct{})}
	close(p.ended)
	l.next, l.running = p, true // a pass that has just ended
	if _, err := r.object(f); !errors.Is(err, errJukebox) {
		t.Errorf("%v", err)
	}
	l.next, l.running = nil, false
	c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
}

// TestPassEndsWhenNoCallWaits: a pass goes on for the calls that still wait, and ends without any.
func TestPassEndsWhenNoCallWaits(t *testing.T) {
	x := serve(t, options{byName: true})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	x.restart()
	h, _ := fh.FromBytes(f)
	l := x.locate.(*byName)
	l.running = true // passes are made here
	p := l.join(h.Sum())
	l.leave(p, h.Sum())
	l.run(p)
	if !errors.Is(p.hidden, errEnded) || len(l.hint) != 0 {
		t.Errorf("without a call: %v, %d hints", p.hidden, len(l.hint))
	}
	if l.begin() != nil {
		t.Error("a pass for no call")
	}
	l.running = true
	gone, waits := l.join(4711), l.join(h.Sum())
	l.leave(gone, 4711)
	if l.begin() != waits || gone != waits {
		t.Fatal("not one pass for both")
	}
	l.run(waits)
	if names := waits.found[h.Sum()]; waits.hidden != nil || len(names) != 1 || names[0] != "f" {
		t.Errorf("%q, %v", names, waits.hidden)
	}
}

// Passes leave the machine time for other things, but none waits for a server
// that is closed.
func TestSearchRests(t *testing.T) {
	x := serve(t, options{byName: true})
	l := x.locate.(*byName)
	l.end, l.took = time.Now(), time.Hour
	must(t, x.Close())
	l.rest()
}

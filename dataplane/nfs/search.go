package nfs

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// search walks the whole export for objects, in passes, one at a time. Calls that arrive while a pass
// runs share the next one. A call whose client is gone waits no longer, and a pass for which no call
// waits any more ends.
type search struct {
	passes sync.WaitGroup // the goroutine that makes passes

	// Guarded by byName.mu:
	next    *pass // not begun yet
	running bool  // the goroutine

	// Of the goroutine:
	end  time.Time // of the last pass
	took time.Duration
}

// pass is one search, for all calls that arrived before it began.
type pass struct {
	wanted map[uint64]int // calls that wait for each object; guarded by byName.mu

	// Of the goroutine:
	todo []*place // directories to be read
	left int      // that had no room there

	// Set by the goroutine before it closes ended:
	ended  chan struct{}
	found  map[uint64][]string
	hidden error // first error that kept the pass from looking everywhere
}

// errEnded means that the server was closed during the search, or that no call waited for it any more.
var errEnded = errors.New("nfs: search ended")

// miss records an error that hides a part of the export. Names that are gone, or where
// other file systems are mounted, hide nothing.
func (p *pass) miss(err error) {
	if p.hidden == nil && !isOneOf(err, unix.ENOENT, unix.ENOTDIR, errAccess) {
		p.hidden = err
	}
}

// The pause between passes is a multiple of the last pass's duration, so that calls with
// handles of deleted objects cannot keep the machine busy.
const (
	restFactor = 4
	maxRest    = 10 * time.Second
)

// maxTodo is how many directories a pass remembers that it has to read: 100 MiB with names of usual
// length. It is reached only by as many directories in one, or in those above each other.
const maxTodo = 1 << 20

// errTooMany means that a pass left out directories.
var errTooMany = errors.New("nfs: more directories than a search can remember")

// add makes a pass read a directory later. If there are most of them, an arbitrary one is left out:
// clients try again, and another pass leaves out others.
func (p *pass) add(dir *place, most int) {
	if len(p.todo) < most {
		p.todo = append(p.todo, dir)
		return
	}
	p.left++
	p.miss(errTooMany)
	if i := rand.IntN(most + 1); i < most {
		p.todo[i] = dir
	}
}

// place is a directory to be searched.
type place struct {
	parent *place
	name   string
	sum    uint64
}

// find searches the export for an object and returns the names that led to it. Otherwise
// the error is errStale, what kept the search from looking everywhere, or that the call's client is
// gone. The call is out of the export's crowd meanwhile, as the search needs no thread of its own.
func (l *byName) find(r *request, sum uint64) ([]string, error) {
	p := l.join(sum)
	defer l.leave(p, sum)
	r.outside(func() {
		select {
		case <-p.ended:
		case <-r.ctx.Done():
		}
	})
	select {
	case <-p.ended:
	default:
		return nil, r.ctx.Err()
	}
	switch names, ok := p.found[sum]; {
	case !r.inside:
		return nil, r.ctx.Err()
	case ok:
		return names, nil
	case p.hidden != nil:
		return nil, p.hidden
	}
	return nil, errStale
}

// join makes a call wait for the next pass, which it returns.
func (l *byName) join(sum uint64) *pass {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &pass{wanted: make(map[uint64]int), found: make(map[uint64][]string), ended: make(chan struct{})}
	}
	l.next.wanted[sum]++
	if !l.running {
		l.running = true
		l.passes.Go(l.makePasses)
	}
	return l.next
}

// leave ends the wait of a call.
func (l *byName) leave(p *pass, sum uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.wanted[sum]--; p.wanted[sum] == 0 {
		delete(p.wanted, sum)
	}
}

// makePasses makes passes while calls wait for one.
func (l *byName) makePasses() {
	for {
		l.rest()
		p := l.begin()
		if p == nil {
			return
		}
		l.run(p)
		close(p.ended)
	}
}

// begin returns the pass that is to run now. If no call waits for one it returns nil, and the next call
// needs another goroutine.
func (l *byName) begin() *pass {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.next
	l.next = nil
	if p != nil && len(p.wanted) > 0 {
		return p
	}
	l.running = false
	return nil
}

// goesOn reports whether a call waits for a pass, and the server is not closed.
func (l *byName) goesOn(p *pass) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(p.wanted) > 0 && l.s.ctx.Err() == nil
}

func (l *byName) wants(p *pass, sum uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.wanted[sum] > 0
}

// rest waits until the next pass may begin, or the server is closed.
func (l *byName) rest() {
	wait := time.Until(l.end.Add(min(restFactor*l.took, maxRest)))
	if l.end.IsZero() || wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.s.ctx.Done():
	}
}

// run walks the export and remembers everything that it sees.
func (l *byName) run(p *pass) {
	start := time.Now()
	p.todo = []*place{{sum: l.s.top.handle.Sum()}}
	for len(p.todo) > 0 && l.goesOn(p) {
		last := len(p.todo) - 1
		dir := p.todo[last]
		p.todo = p.todo[:last]
		l.enter(p, dir)
	}
	p.todo = nil
	if p.left > 0 {
		l.s.log.Warn("a search of the export left out directories; clients try again", "directories", p.left, "most", l.mostTodo)
	}
	if !l.goesOn(p) { // it may not have looked everywhere
		p.hidden = errEnded
	}
	l.end = time.Now()
	l.took = l.end.Sub(start)
}

// enter reads all names in a directory. The pass reads the directories among them later. It skips
// what it cannot read.
func (l *byName) enter(p *pass, dir *place) {
	fd, err := l.descend(dir.names())
	if err != nil {
		p.miss(err)
		return
	}
	if fd != l.s.top.path {
		defer unix.Close(fd)
	}
	if err := l.s.wholeDir(fd, func(e *dirent) {
		if isDot(e.name) || len(e.name) > maxName || !l.goesOn(p) {
			return // no client can have longer names
		}
		if sub := l.see(p, dir, fd, e.name); sub != nil {
			p.add(sub, l.mostTodo)
		}
	}); err != nil {
		p.miss(err)
	}
}

// see records an object, and returns its place if it is a directory.
func (l *byName) see(p *pass, dir *place, dirFD int, name []byte) *place {
	var at posix.Name
	at.Set(name)
	fd, err := l.s.openAt(dirFD, &at, unix.O_PATH)
	if err != nil {
		p.miss(err)
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	id, err := l.s.statID(fd, &st)
	if err != nil {
		p.miss(err)
		return nil
	}
	h := l.s.codec.Seal(&id)
	here := &place{parent: dir, name: at.String(), sum: h.Sum()}
	l.put(here.sum, hint{dir.sum, here.name})
	if l.wants(p, here.sum) {
		p.found[here.sum] = here.names()
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return here
}

// names returns the path from the export's root.
func (p *place) names() []string {
	var names []string
	for ; p.parent != nil; p = p.parent {
		names = append(names, p.name)
	}
	slices.Reverse(names)
	return names
}

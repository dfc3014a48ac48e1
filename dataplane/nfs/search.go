package nfs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// search walks the whole export for objects. Requests that arrive while a pass runs share
// the next one.
type search struct {
	running sync.Mutex // one pass at a time
	next    *pass      // not begun yet; guarded by byName.mu
	end     time.Time  // of the last pass
	took    time.Duration
}

// pass is one search, for all requests that arrived before it began.
type pass struct {
	wanted map[uint64]struct{}
	found  map[uint64][]string
	done   bool  // guarded by search.running
	hidden error // first error that kept the pass from looking everywhere
}

// errEnded means that the server was closed during the search.
var errEnded = errors.New("nfs: server closed")

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

// place is a directory to be searched.
type place struct {
	parent *place
	name   string
	sum    uint64
}

// find searches the export for an object and returns the names that led to it. Otherwise
// the error is errStale, or what kept it from looking everywhere. The call is out of the
// export's crowd meanwhile, as others need no search: a single pass runs for all.
func (l *byName) find(sum uint64) ([]string, error) {
	crowd := &l.s.export.crowd
	crowd.leave()
	defer crowd.enter(context.Background())
	l.mu.Lock()
	if l.next == nil {
		l.next = &pass{wanted: make(map[uint64]struct{}), found: make(map[uint64][]string)}
	}
	p := l.next
	p.wanted[sum] = struct{}{}
	l.mu.Unlock()

	l.running.Lock()
	defer l.running.Unlock()
	if !p.done {
		l.rest()
		l.mu.Lock()
		l.next = nil
		l.mu.Unlock()
		l.run(p)
	}
	if names, ok := p.found[sum]; ok {
		return names, nil
	}
	if p.hidden != nil {
		return nil, p.hidden
	}
	return nil, errStale
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
	queue := []*place{{sum: l.s.top.handle.Sum()}}
	for len(queue) > 0 {
		if l.s.ctx.Err() != nil {
			p.hidden = errEnded
			break
		}
		last := len(queue) - 1
		dir := queue[last]
		queue = append(queue[:last], l.enter(p, dir)...)
	}
	l.end = time.Now()
	l.took = l.end.Sub(start)
	p.done = true
}

// enter reads all names in a directory and returns the directories among them. It skips
// what it cannot read.
func (l *byName) enter(p *pass, dir *place) []*place {
	fd, err := l.descend(dir.names())
	if err != nil {
		p.miss(err)
		return nil
	}
	if fd != l.s.top.path {
		defer unix.Close(fd)
	}
	var dirs []*place
	if err := l.s.wholeDir(fd, func(e *dirent) {
		if isDot(e.name) || len(e.name) > maxName {
			return // no client can have longer names
		}
		if sub := l.see(p, dir, fd, e.name); sub != nil {
			dirs = append(dirs, sub)
		}
	}); err != nil {
		p.miss(err)
	}
	return dirs
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
	if _, ok := p.wanted[here.sum]; ok {
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

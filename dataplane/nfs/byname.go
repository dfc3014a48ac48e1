package nfs

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// byName finds objects if the kernel cannot open handles. It remembers the name and
// directory in which each object was last seen, walks there from the export's root, and
// compares the ID. If it does not know the object, after a restart or because others have
// moved it, it searches the export.
//
// Nothing of this must be kept on disk: the handle identifies the object, and names are
// only hints.
type byName struct {
	s     *subtree
	mu    sync.Mutex
	hint  map[uint64]hint // by fh.Handle.Sum
	bytes int             // of the hints
	most  int             // bytes that they may have
	// mostTodo is how many directories a search remembers that it has to read.
	mostTodo int
	gone     goneSet
	search
}

// hint is where an object was last seen.
type hint struct {
	parent uint64
	name   string
}

// maxHints limits the memory of the hints of an export, in bytes: a million names of usual length.
// Beyond it arbitrary hints are dropped, each of which costs a search when it is needed.
const maxHints = 100 << 20

// size returns the memory that a hint takes, in bytes: its place in the map, and the name.
func (h hint) size() int { return 80 + len(h.name) }

func newByName(s *subtree) *byName {
	return &byName{s: s, hint: make(map[uint64]hint), most: maxHints, mostTodo: maxTodo}
}

// close implements locator.
func (l *byName) close() { l.passes.Wait() }

func (l *byName) learn(parent *object, id fh.ID, name *posix.Name) {
	l.put(l.sum(id), hint{parent.handle.Sum(), name.String()})
}

// sum returns the number that objects have in hints: that of their handle.
func (l *byName) sum(id fh.ID) uint64 {
	h := l.s.codec.Seal(&id)
	return h.Sum()
}

func (l *byName) put(sum uint64, at hint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(sum)
	for l.bytes+at.size() > l.most && len(l.hint) > 0 {
		for victim := range l.hint {
			l.forget(victim)
			break
		}
	}
	l.hint[sum] = at
	l.bytes += at.size()
	l.gone.drop(sum)
}

// forget drops the hint for an object, if there is one. The caller holds mu.
func (l *byName) forget(sum uint64) {
	if at, ok := l.hint[sum]; ok {
		delete(l.hint, sum)
		l.bytes -= at.size()
	}
}

func (l *byName) unlearn(parent *object, id fh.ID, name *posix.Name, last bool) {
	sum := l.sum(id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hint[sum] == (hint{parent.handle.Sum(), name.String()}) {
		l.forget(sum)
	}
	if last {
		l.gone.add(sum)
	}
}

// open implements locator. The object may be moved during the search, so open tries twice
// before it reports that the object is gone.
func (l *byName) open(r *request, id fh.ID) (int, error) {
	sum := l.sum(id)
	if sum == l.s.top.handle.Sum() {
		return unix.Open(procPath(l.s.top.path), unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	if l.isGone(sum) {
		return -1, errStale
	}
	if path, ok := l.path(sum); ok {
		if fd, err := l.walk(path, &id); !errors.Is(err, errStale) {
			return fd, err
		}
	}
	var hidden error
	found := false
	for range 2 {
		path, err := l.find(r, sum)
		if err == nil {
			found = true
			if fd, err := l.walk(path, &id); !errors.Is(err, errStale) {
				return fd, err
			}
		}
		if hidden = r.ctx.Err(); hidden != nil { // one pass does not show that the object is gone
			break
		}
		hidden = err
	}
	if found {
		hidden = nil
	}
	return -1, l.missing(sum, hidden)
}

// missing returns the error for an object that was not found. It is gone if the last search could
// look everywhere. If rdmad has no right to look everywhere, it is stale too, but a call may still
// find it. With any other error of the search the client must try again, and so it must if a
// search has found the object (nil) and somebody has moved it since.
func (l *byName) missing(sum uint64, hidden error) error {
	switch {
	case errors.Is(hidden, errStale):
		l.mu.Lock()
		l.gone.add(sum)
		l.mu.Unlock()
		return errStale
	case errors.Is(hidden, unix.EACCES):
		return errStale
	}
	return errJukebox
}

func (l *byName) isGone(sum uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone.has(sum)
}

// maxDepth limits the length of paths, also if hints have become a circle.
const maxDepth = 4096

// path returns the names that lead to an object, if they are known.
func (l *byName) path(sum uint64) (names []string, ok bool) {
	top := l.s.top.handle.Sum()
	l.mu.Lock()
	defer l.mu.Unlock()
	for sum != top {
		at, ok := l.hint[sum]
		if !ok || len(names) == maxDepth {
			return nil, false
		}
		names = append(names, at.name)
		sum = at.parent
	}
	slices.Reverse(names)
	return names, true
}

// walk opens the object at the end of a path if it has the right ID. Otherwise it returns
// errStale.
func (l *byName) walk(names []string, id *fh.ID) (int, error) {
	fd, err := l.descend(names)
	if isOneOf(err, unix.ENOENT, unix.ENOTDIR, unix.ENAMETOOLONG, errAccess) {
		return -1, errStale
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	got, err := l.s.statID(fd, &st)
	if err != nil || got != *id {
		unix.Close(fd)
		return -1, errStale
	}
	return fd, nil
}

// descend opens a path as O_PATH, name by name.
func (l *byName) descend(names []string) (int, error) {
	dir := l.s.top.path
	var at posix.Name
	for _, name := range names {
		at.Set([]byte(name))
		fd, err := l.s.openAt(dir, &at, unix.O_PATH)
		if dir != l.s.top.path {
			unix.Close(dir)
		}
		if err != nil {
			return -1, err
		}
		dir = fd
	}
	return dir, nil
}

// goneSet remembers the last objects that are known to be gone. They never come back,
// because a new object has another ID.
type goneSet struct {
	set  map[uint64]struct{}
	ring []uint64
	next int
}

const maxGone = 1 << 14

func (g *goneSet) has(sum uint64) bool {
	_, ok := g.set[sum]
	return ok
}

func (g *goneSet) add(sum uint64) {
	if g.set == nil {
		g.set = make(map[uint64]struct{})
	}
	if g.has(sum) {
		return
	}
	g.set[sum] = struct{}{}
	if len(g.ring) < maxGone {
		g.ring = append(g.ring, sum)
		return
	}
	delete(g.set, g.ring[g.next])
	g.ring[g.next] = sum
	g.next = (g.next + 1) % maxGone
}

func (g *goneSet) drop(sum uint64) { delete(g.set, sum) }

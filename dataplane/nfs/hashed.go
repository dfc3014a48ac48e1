package nfs

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
)

// hashed lists directories of file systems whose offsets are not reliable (tmpfs before
// Linux 6.6, overlayfs, and all unknown ones). It lists names in the order of their keyed
// hash, which is the cookie. To do that, it reads the whole directory, and keeps the result
// for the next call while the directory does not change. Of a large directory it keeps only
// names that come next.
type hashed struct {
	k0, k1 uint64
	large  sync.Mutex // held by the call that reads more than it needs itself
	mu     sync.Mutex
	kept   []*snapshot // the least recently used first
	names  int         // in all that are kept
}

// Limits of what is kept.
const (
	maxSnapshots = 16
	maxSnapNames = 1 << 18
	maxSnapSize  = maxSnapNames * minDirent // of one, in bytes of a reply
)

// snapshot is a directory's content, sorted by cookie. It does not change.
type snapshot struct {
	dir     fh.Handle
	mtime   unix.Timespec
	ctime   unix.Timespec
	first   uint64 // cookie from which on names are in it
	last    uint64 // cookie up to which they are; noLast if all are
	entries []dirent
	size    int // while it is read
}

const noLast = 1<<64 - 1

func newHashed(s *subtree) *hashed {
	h := &hashed{}
	h.k0, h.k1 = s.codec.Subkey("directory cookies")
	return h
}

func (h *hashed) verifier() uint64 { return 0x72646d6164686173 } // "rdmadhas"

func (h *hashed) list(dir *object, cookie uint64, emit func(*dirent) bool) (bool, error) {
	if cookie > maxHash {
		return false, errBadCookie
	}
	page, end, err := h.page(dir, cookie)
	if err != nil {
		return false, err
	}
	for i := range page {
		if !emit(&page[i]) {
			return false, nil
		}
	}
	return end, nil
}

// page returns the entries after cookie, as many as a reply can have. They are copied, because
// emit may wait for the file system: of what is not kept any more, little stays in memory.
func (h *hashed) page(dir *object, cookie uint64) (page []dirent, end bool, err error) {
	snap, err := h.snapshot(dir, cookie)
	if err != nil {
		return nil, false, err
	}
	i, found := slices.BinarySearchFunc(snap.entries, cookie, func(e dirent, c uint64) int { return cmp.Compare(e.cookie, c) })
	if found {
		i++
	}
	page = snap.entries[i:]
	n, _ := fill(page, maxDirReply)
	return slices.Clone(page[:n]), snap.last == noLast && n == len(page), nil
}

// fill returns how many of the entries have a size of at least least together, or all.
func fill(entries []dirent, least int) (n, size int) {
	for ; n < len(entries) && size < least; n++ {
		size += entries[n].size()
	}
	return n, size
}

// settled is how long ago a directory must have changed so that its times show the next
// change. The clock of a file system may tick slowly. Some keep only seconds, and vfat only
// even ones: there coarse comes on top.
const (
	settled = 50 * time.Millisecond
	coarse  = 2 * time.Second
)

// isSettled reports whether a later change would show in a directory's times.
func isSettled(ctime unix.Timespec, now time.Time) bool {
	rest := settled
	if ctime.Nsec == 0 {
		rest += coarse
	}
	return now.Sub(time.Unix(ctime.Unix())) > rest
}

// snapshot returns the directory's content after cookie, at some time during this call. Calls
// that read a directory at the same time would need much memory: only one of them reads more
// than it needs, to keep it.
func (h *hashed) snapshot(dir *object, cookie uint64) (*snapshot, error) {
	var st unix.Stat_t
	began := time.Now() // a change while it is read may have the same time as one before
	if err := dir.stat(&st); err != nil {
		return nil, err
	}
	if snap := h.take(dir, &st, cookie); snap != nil {
		return snap, nil
	}
	most, keep := 2*maxDirReply, false
	if h.large.TryLock() {
		defer h.large.Unlock()
		most, keep = maxSnapSize, isSettled(st.Ctim, began)
	}
	snap := &snapshot{dir: dir.handle, mtime: st.Mtim, ctime: st.Ctim, first: cookie, last: noLast}
	if err := dir.server.wholeDir(dir.path, func(e *dirent) {
		snap.add(dirent{ino: e.ino, cookie: h.cookie(e.name), name: e.name, dir: e.dir}, most)
	}); err != nil {
		return nil, err
	}
	snap.sort()
	if keep {
		h.keep(snap)
	}
	return snap, nil
}

// add adds a copy of an entry. Beyond a size of most, only the half that comes first stays.
func (s *snapshot) add(e dirent, most int) {
	if e.cookie < s.first || e.cookie > s.last {
		return
	}
	e.name = slices.Clone(e.name)
	s.entries = append(s.entries, e)
	if s.size += e.size(); s.size <= most {
		return
	}
	slices.SortFunc(s.entries, byCookie)
	var n int
	n, s.size = fill(s.entries, most/2)
	clear(s.entries[n:])
	s.entries = s.entries[:n]
	s.last = s.entries[n-1].cookie
}

func byCookie(a, b dirent) int {
	if c := cmp.Compare(a.cookie, b.cookie); c != 0 {
		return c
	}
	return slices.Compare(a.name, b.name)
}

// sort sorts the entries. If two names have the same hash, which is likely only with
// billions of names, they get neighbouring cookies.
func (s *snapshot) sort() {
	slices.SortFunc(s.entries, byCookie)
	for i := 1; i < len(s.entries); i++ {
		if s.entries[i].cookie <= s.entries[i-1].cookie {
			s.entries[i].cookie = s.entries[i-1].cookie + 1
		}
	}
}

// take returns a kept snapshot of a directory with the attributes st, and what comes after
// cookie, or nil. It drops those with other attributes. Other parts of the directory stay, for
// other clients.
func (h *hashed) take(dir *object, st *unix.Stat_t, cookie uint64) *snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(func(snap *snapshot) bool {
		return snap.dir == dir.handle && (snap.mtime != st.Mtim || snap.ctime != st.Ctim)
	})
	i := slices.IndexFunc(h.kept, func(snap *snapshot) bool {
		return snap.dir == dir.handle && cookie >= snap.first && cookie < snap.last
	})
	if i < 0 {
		return nil
	}
	snap := h.kept[i]
	h.kept = append(slices.Delete(h.kept, i, i+1), snap)
	return snap
}

// drop drops some of what is kept. h.mu is held.
func (h *hashed) drop(which func(*snapshot) bool) {
	h.kept = slices.DeleteFunc(h.kept, func(snap *snapshot) bool {
		out := which(snap)
		if out {
			h.names -= len(snap.entries)
		}
		return out
	})
}

// keep keeps a snapshot, instead of those that are parts of it.
func (h *hashed) keep(snap *snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(func(s *snapshot) bool { return s.dir == snap.dir && s.first >= snap.first && s.last <= snap.last })
	h.kept = append(h.kept, snap)
	h.names += len(snap.entries)
	for len(h.kept) > maxSnapshots || h.names > maxSnapNames {
		h.names -= len(h.kept[0].entries)
		h.kept = slices.Delete(h.kept, 0, 1)
	}
}

// Cookies: "." and ".." come first. The sign bit is clear, because clients pass cookies to
// programs as signed offsets.
const (
	cookieDot    = 1
	cookieDotDot = 2
	minHash      = 3
	maxHash      = 1<<63 - 2
)

func (h *hashed) cookie(name []byte) uint64 {
	switch string(name) {
	case ".":
		return cookieDot
	case "..":
		return cookieDotDot
	}
	return minHash + sipHash(h.k0, h.k1, name)>>1%(maxHash-minHash-maxSnapNames)
}

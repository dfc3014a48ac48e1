package nfs

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// exportPoint is an export while the Server exists. Its file system may go away and come
// back: then it has no subtree for a while.
type exportPoint struct {
	Export
	srv   *Server
	first bool   // the export of Config.Export: it has more names, and the key of handles itself
	full  string // absolute path
	rules []rule // by network, the longest prefix first

	tree  atomic.Pointer[subtree] // nil while the file system is away
	known atomic.Pointer[identification]
	state atomic.Uint32 // ExportState
	crowd crowd
	syncs pace

	mounting chan struct{} // has an element for each MNT in the file system

	mu sync.Mutex // held by check
}

// identification identifies the file system and directory of an export when it was opened
// first. Only these are served again after the export was away.
type identification struct {
	number uint32 // of the export in handles
	root   fh.ID
	fs     unix.Fsid
}

// Differ returns the paths of exports at which another Server serves, or served, another directory or
// file system.
func (s *Server) Differ(other *Server) (paths []string) {
	for _, e := range s.exports {
		for _, o := range other.exports {
			if a, b := e.known.Load(), o.known.Load(); e.full == o.full && a != nil && b != nil && (a.root != b.root || a.fs != b.fs) {
				paths = append(paths, e.Path)
			}
		}
	}
	return paths
}

// rule has the options of one network.
type rule struct {
	network netip.Prefix
	options Options
}

func newExportPoints(s *Server) (all []*exportPoint, err error) {
	list := s.cfg.Exports
	if s.cfg.Path != "" {
		list = append([]Export{s.cfg.Export}, list...)
	}
	for i, one := range list {
		e := &exportPoint{Export: one, srv: s, first: i == 0 && s.cfg.Path != "", crowd: newCrowd(), syncs: newPace(), mounting: make(chan struct{}, mostMounting)}
		if e.full, err = filepath.Abs(one.Path); err != nil {
			return nil, fmt.Errorf("nfs: export %s: %w", one.Path, err)
		}
		for _, c := range one.Clients {
			for _, n := range c.Networks {
				e.rules = append(e.rules, rule{n, c.Options})
			}
		}
		slices.SortStableFunc(e.rules, func(a, b rule) int { return b.network.Bits() - a.network.Bits() })
		all = append(all, e)
	}
	return all, nil
}

// optionsFor returns the options for calls of a peer, or nil if it has no access.
func (e *exportPoint) optionsFor(peer netip.Addr) *Options {
	if len(e.rules) == 0 {
		return &e.Options
	}
	peer = peer.Unmap().WithZone("")
	for i := range e.rules {
		if e.rules[i].network.Contains(peer) {
			return &e.rules[i].options
		}
	}
	return nil
}

// enter returns the subtree for a call, which must release life, or nil if the file system
// is away.
func (e *exportPoint) enter() *subtree {
	for {
		tree := e.tree.Load()
		if tree == nil {
			return nil
		}
		tree.life.RLock()
		if !tree.closed {
			return tree
		}
		tree.life.RUnlock()
		if e.tree.Load() == tree {
			return nil
		}
	}
}

// absent returns the answer to calls while the file system is away, the same as that of
// Linux's own server: with RequireMountpoint (mountpoint of exports(5)) clients wait; else, and if
// another file system has taken the place, their handles are stale.
func (e *exportPoint) absent() statusError {
	if e.RequireMountpoint && ExportState(e.state.Load()) != ExportReplaced {
		return errJukebox
	}
	return errStale
}

// openFirst opens the export when the server starts. It is no error if its file system is
// not mounted yet.
func (e *exportPoint) openFirst() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.RequireMountpoint {
		if mounted, err := IsMountpoint(e.Path); err != nil {
			return fmt.Errorf("nfs: export %s: %w", e.Path, err)
		} else if !mounted {
			e.set(ExportNotMounted, e.Path+" is not a mount point")
			return nil
		}
	}
	return e.open()
}

// open opens the subtree, if it is the known one or the first. The caller holds mu.
func (e *exportPoint) open() error {
	tree, err := openSubtree(e)
	if err != nil {
		return err
	}
	known := e.known.Load()
	if known != nil && !tree.is(known) {
		tree.close()
		return errReplaced
	}
	if err := e.overlaps(tree); err != nil {
		tree.close()
		return err
	}
	tree.measure()
	if known == nil {
		e.known.Store(&identification{number: tree.codec.Export(), root: tree.top.id, fs: tree.fs})
	}
	e.swap(tree)
	if e.tree.Load() != tree {
		tree.close()
		return errEnded
	}
	e.set(ExportServed, "")
	return nil
}

// errReplaced means that another file system or directory is at the path.
var errReplaced = errors.New("it is another directory or file system than the one that is served")

// swap serves another subtree, or none with nil. The former one is closed when its calls
// have ended, which may take long if its file system hangs.
func (e *exportPoint) swap(tree *subtree) {
	e.srv.mu.Lock()
	defer e.srv.mu.Unlock()
	if e.srv.ctx.Err() != nil {
		tree = nil
	}
	if tree != nil {
		tree.cache.limit.Store(e.srv.filesEachLocked())
	}
	if old := e.tree.Swap(tree); old != nil {
		e.srv.closing.Go(old.close)
	}
}

// giveUp closes the subtree.
func (e *exportPoint) giveUp() { e.swap(nil) }

// overlaps returns an error if a directory is within another export or has one in it, on the
// same mount. Its clients could use the options of either.
func (e *exportPoint) overlaps(tree *subtree) error {
	for _, other := range e.srv.exports {
		if other == e {
			continue
		}
		there := other.enter()
		if there == nil {
			continue
		}
		err := tree.location().overlap(there.location(), other.Path)
		there.life.RUnlock()
		if err != nil {
			return fmt.Errorf("nfs: export %s: %w", e.Path, err)
		}
	}
	return nil
}

// Overlap returns an error if one of two directories is inside the other, on the same mount.
// They can't be exports of one Server.
func Overlap(path, other string) error {
	a, err := locate(path)
	if err != nil {
		return err
	}
	defer unix.Close(a.fd)
	b, err := locate(other)
	if err != nil {
		return err
	}
	defer unix.Close(b.fd)
	return a.overlap(b, other)
}

// location is an open directory, and where it is.
type location struct {
	fd    int
	place posix.Place
	mount int
}

// locate opens what is at a path, as O_PATH.
func locate(path string) (l location, err error) {
	if l.fd, err = openDir(path); err != nil {
		return l, err
	}
	if err = posix.PlaceOf(l.fd, &l.place); err == nil {
		l.mount, err = posix.Mount(l.fd)
	}
	if err != nil {
		unix.Close(l.fd)
	}
	return l, err
}

func (s *subtree) location() location { return location{s.top.path, s.place, s.mount} }

func (l location) overlap(other location, path string) error {
	if l.mount != other.mount {
		return nil
	}
	inside, err := below(l.fd, &other.place)
	if err == nil && !inside {
		inside, err = below(other.fd, &l.place)
	}
	if err == nil && inside {
		err = fmt.Errorf("it overlaps with the export %s: clients could choose between the options of both; export one of them", path)
	}
	return err
}

// IsMountpoint reports whether a file system is mounted at a path.
func IsMountpoint(path string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &st); err != nil {
		return false, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
	}
	var up unix.Statx_t // before Linux 5.8, and wrong for bind mounts of one file system
	if err := unix.Statx(unix.AT_FDCWD, path+"/..", 0, unix.STATX_INO, &up); err != nil {
		return false, &os.PathError{Op: "stat", Path: path + "/..", Err: err}
	}
	return st.Dev_major != up.Dev_major || st.Dev_minor != up.Dev_minor || st.Ino == up.Ino, nil
}

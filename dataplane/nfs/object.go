package nfs

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// object is an open object of the export. A user that got it from the cache has a reference
// and must release it. The descriptors are closed with the last reference.
type object struct {
	id     fh.ID
	handle fh.Handle
	typ    uint32 // S_IFMT bits, which never change
	dev    uint64
	ino    uint64
	place  posix.Place // the same as dev and ino

	// path is an O_PATH descriptor, or the descriptor for data.
	path int
	// read and write are descriptors for data, or -1 until they are needed. Directories
	// have only read. They change once, under open.
	read, write atomic.Int32
	open        sync.Mutex
	// listing guards the position of a directory's read descriptor.
	listing sync.Mutex
	// guard makes a guarded SETATTR atomic for other guarded ones.
	guard sync.Mutex

	syncs syncs
	mods  modifications
	// refusals counts WRITEs whose error may be that of other data (subtree.refused).
	refusals atomic.Uint32
	// size is the size when the attributes were last read, in bytes.
	size atomic.Int64
	// dirty means that data was written since everything was last on stable storage.
	dirty atomic.Bool
	// verified is the epoch in which the object was last seen inside the export, plus one.
	verified atomic.Uint64

	refs   atomic.Int32 // including the cache's own
	server *subtree

	// Guarded by the cache's shard.
	used       uint32 // epoch of last use
	prev, next *object
}

// newObject takes ownership of fd, an O_PATH descriptor.
func (s *subtree) newObject(id *fh.ID, h fh.Handle, fd int, st *unix.Stat_t) *object {
	o := &object{id: *id, handle: h, typ: st.Mode & unix.S_IFMT, dev: st.Dev, ino: st.Ino, path: fd, server: s}
	o.place = posix.Place{Major: unix.Major(st.Dev), Minor: unix.Minor(st.Dev), Ino: st.Ino}
	o.size.Store(st.Size)
	o.read.Store(-1)
	o.write.Store(-1)
	o.syncs.ended.L = &o.syncs.mu
	o.refs.Store(1)
	s.cache.files.Add(1)
	return o
}

// adopt uses fd, which is open for reading and writing, as the only descriptor. The object
// is not shared yet.
func (o *object) adopt() {
	o.read.Store(int32(o.path))
	o.write.Store(int32(o.path))
}

func (o *object) isDir() bool { return o.typ == unix.S_IFDIR }

// release releases a reference. Without an object it does nothing.
func (o *object) release() {
	if o != nil && o.refs.Add(-1) == 0 {
		o.close()
	}
}

func (o *object) close() {
	read, write := int(o.read.Load()), int(o.write.Load())
	if write >= 0 && write != o.path {
		o.closeFD(write)
	}
	if read >= 0 && read != o.path && read != write {
		o.closeFD(read)
	}
	o.closeFD(o.path)
}

func (o *object) closeFD(fd int) {
	unix.Close(fd)
	o.server.cache.files.Add(-1)
}

// stat gets the attributes. The object is stale if it has no name any more.
func (o *object) stat(st *unix.Stat_t) error {
	if err := unix.Fstat(o.path, st); err != nil {
		return err
	}
	if st.Nlink == 0 {
		o.server.cache.forget(o)
		return errStale
	}
	o.size.Store(st.Size)
	return nil
}

// orStale returns err, the error of a call that used names in the directory o. A directory that
// others have removed has no names, so the kernel's error is ENOENT. But it is the handle that is
// stale: a client then looks for the directory by its own name, where there may be another one.
func (o *object) orStale(err error) error {
	if o == nil || !errors.Is(err, unix.ENOENT) {
		return err
	}
	var st unix.Stat_t
	if gone := o.stat(&st); gone != nil {
		return gone
	}
	return err
}

// opened returns a descriptor for reading data if there is one already, or -1.
func (o *object) opened() int {
	if fd := o.read.Load(); fd >= 0 {
		return int(fd)
	}
	return int(o.write.Load())
}

// reader returns a descriptor for reading data of a regular file or a directory.
func (o *object) reader() (int, error) {
	if fd := o.opened(); fd >= 0 {
		return fd, nil
	}
	return o.openData(&o.read, unix.O_RDONLY)
}

// writer returns a descriptor for writing data of a regular file.
func (o *object) writer() (int, error) {
	if fd := o.write.Load(); fd >= 0 {
		return int(fd), nil
	}
	return o.openData(&o.write, unix.O_RDWR)
}

func (o *object) openData(slot *atomic.Int32, flags int) (int, error) {
	o.open.Lock()
	defer o.open.Unlock()
	if fd := slot.Load(); fd >= 0 {
		return int(fd), nil
	}
	if err := o.server.cache.room(); err != nil {
		return -1, err
	}
	fd, err := o.server.reopen(o.path, flags)
	if err != nil {
		return -1, err
	}
	o.server.cache.files.Add(1)
	slot.Store(int32(fd))
	return fd, nil
}

// openAgain opens the object of a descriptor. It is only for regular files and directories,
// because opening others may have effects.
func openAgain(fd, flags int) (int, error) {
	return unix.Open(procPath(fd), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

// reopen is openAgain, for an O_PATH descriptor. If rdmad is not root but owns the
// file, it ignores the mode, as Linux's own server does (NFSD_MAY_OWNER_OVERRIDE): a client
// checks rights at open, and then expects to read and write even if the mode changes.
func (s *subtree) reopen(fd, flags int) (int, error) {
	opened, err := openAgain(fd, flags)
	if !errors.Is(err, unix.EACCES) || s.switcher != nil {
		return opened, err
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Uid != s.ownUID || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, err
	}
	name, mode := procPath(fd), st.Mode&0o7777
	if unix.Chmod(name, mode|0o600) != nil {
		return -1, err
	}
	opened, err = openAgain(fd, flags)
	if e := unix.Chmod(name, mode); e != nil && err == nil {
		unix.Close(opened)
		return -1, e
	}
	return opened, err
}

// procPath returns a path to the object of a descriptor, for calls that do not accept an
// O_PATH descriptor.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// modifications counts the operations of this server that change an object. An answer
// includes the attributes from before an operation only if no other operation came in
// between (wcc_data, RFC 1813 §2.6), because a client attributes the whole difference to
// its own operation.
type modifications struct {
	inflight atomic.Int32
	sequence atomic.Uint32
}

// begin starts an operation. Pass token to end.
func (m *modifications) begin() (token uint32, alone bool) {
	n := m.inflight.Add(1)
	return m.sequence.Add(1), n == 1
}

// end ends an operation and reports whether no other one began meanwhile.
func (m *modifications) end(token uint32) bool {
	same := m.sequence.Load() == token
	m.inflight.Add(-1)
	return same
}

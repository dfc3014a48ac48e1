package nfs

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// lost records that the kernel may have dropped written data. call got the error; it is nil if
// no client waits. The kernel reports such an error once and then treats the pages as clean, so
// that another fsync would succeed.
func (s *subtree) lost(o *object, call *oncrpc.Call, err error) {
	s.verifier.Store(rand.Uint64())
	name := "rdmad"
	if call != nil {
		name = call.Peer.String()
	}
	s.log.Error("writing to stable storage failed: clients are asked to write again",
		slog.String("peer", name), slog.Uint64("fileid", o.ino), slog.Any("error", err))
}

// syncs bring what was written to one file or directory to stable storage. One at a time runs,
// for all calls that wait then: many at the same time would keep threads, and through them
// processors, from other clients. And of several with one open file, the kernel tells an error
// of the disk only to one. So an error counts for all stable WRITEs that have begun, and have
// not been answered, when it comes.
type syncs struct {
	mu          sync.Mutex
	ended       sync.Cond // L is &mu
	begun, done uint64    // how many began and ended; no more than one runs
	full        uint64    // the last that must bring all attributes, too
	failed      uint64    // the last that failed
	err         error     // of that
	waiting     int       // calls in sync
}

// now returns how many have ended, for since.
func (s *syncs) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// alone begins one for a call that both writes and syncs, if no other call is in sync. The call
// must end it.
func (s *syncs) alone(p pace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > 0 || !p.tryEnter() {
		return false
	}
	s.waiting++
	s.begun++
	return true
}

// end ends what alone began, after an error has renewed the write verifier.
func (s *syncs) end(p pace, err error) {
	p.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
	s.leaveLocked()
}

func (s *syncs) endLocked(err error) {
	s.done++
	if err != nil {
		s.failed, s.err = s.done, err
	}
}

// leaveLocked lets the next call go on: one after the other, so that they leave processors to
// other clients.
func (s *syncs) leaveLocked() {
	s.waiting--
	s.ended.Signal()
}

// since returns the error of those that ended after now.
func (s *syncs) since(now uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed > now {
		return s.err
	}
	return nil
}

// sync waits until what was written to o before is on stable storage, with all attributes if
// full. If no other call brings it there, this one does, with fd. call is nil if no client waits.
func (o *object) sync(call *oncrpc.Call, fd int, full bool) error {
	s := &o.syncs
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.begun + 1 // one that runs may have missed what was written
	if full {
		s.full = want
	}
	if s.waiting++; s.waiting > 1 {
		s.ended.Wait()
	}
	if s.done < want { // none runs, and others that came since wait for this call
		s.mu.Unlock()
		counted := o.server.export.syncs.enter()
		s.mu.Lock()
		s.begun++
		all := s.full == s.begun
		s.mu.Unlock()
		err := o.bring(call, fd, all)
		if counted {
			o.server.export.syncs.leave()
		}
		s.mu.Lock()
		s.endLocked(err)
	}
	s.leaveLocked()
	if s.failed >= want {
		return s.err
	}
	return nil
}

// bring brings o to stable storage. An error renews the write verifier.
func (o *object) bring(call *oncrpc.Call, fd int, full bool) (err error) {
	if full {
		err = unix.Fsync(fd)
	} else {
		err = unix.Fdatasync(fd)
	}
	if err != nil && !o.isDir() {
		o.server.lost(o, call, err)
	}
	return err
}

// pace has an element for each of the syncs of an export that run and count.
type pace chan struct{}

const (
	// mostSyncs is how many syncs of an export count at once. Each has a thread, and on a fast
	// disk, more of them would only keep the processors from other clients.
	mostSyncs = 4
	// syncPatience is how long one waits to count. On a slow disk many may run, which the file
	// system brings to it together.
	syncPatience = 10 * time.Millisecond
)

// enter waits until a sync may run. It counts if it must leave.
func (p pace) enter() (counts bool) {
	if p.tryEnter() {
		return true
	}
	patience := time.NewTimer(syncPatience)
	defer patience.Stop()
	select {
	case p <- struct{}{}:
		return true
	case <-patience.C:
		return false
	}
}

// tryEnter is enter without patience.
func (p pace) tryEnter() bool {
	select {
	case p <- struct{}{}:
		return true
	default:
		return false
	}
}

func (p pace) leave() { <-p }

// sync is the object's, for the call of r.
func (r *request) sync(o *object, fd int, full bool) (err error) {
	r.outside(func() { err = o.sync(r.call, fd, full) })
	return err
}

// commitFD returns a descriptor by which the data of o can be brought to stable storage.
func (o *object) commitFD() (int, error) {
	fd, err := o.writer()
	if isOneOf(err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ETXTBSY) {
		return o.reader() // a written file is flushed through this as well
	}
	return fd, err
}

// flushAndRelease releases the cache's reference. It first writes data to stable storage:
// the kernel reports a write-back error only to those who have the file open, and no one
// else might get it.
func (o *object) flushAndRelease() {
	if fd := int(o.write.Load()); fd >= 0 && o.dirty.Load() && !o.server.volatile {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Nlink > 0 {
			o.dirty.Store(false)
			_ = o.sync(nil, fd, false) // an error has renewed the verifier
		}
	}
	o.release()
}

// syncMetadata makes a change of names in a directory or of attributes stable, unless
// configured otherwise. For a file, the kernel writes its data as well, and reports here what
// went wrong with it.
func (r *request) syncMetadata(o *object) error {
	s := r.srv
	if s.asyncMetadata || s.volatile || (!o.isDir() && o.typ != unix.S_IFREG) {
		return nil
	}
	fd := int(o.write.Load()) // a COMMIT that waits for this needs the errors of the data
	if fd < 0 {
		var err error
		if fd, err = o.reader(); isOneOf(err, unix.EACCES) { // not root, and no right to read
			return unix.Syncfs(int(s.dir.Fd())) // all of the file system
		}
		if err != nil {
			return err
		}
	}
	return r.sync(o, fd, true)
}

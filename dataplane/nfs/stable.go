package nfs

import (
	"log/slog"
	"math/rand/v2"
	"net/netip"

	"golang.org/x/sys/unix"
)

// noPeer is the peer of a commit for which no call waits.
var noPeer netip.AddrPort

// lost records that the kernel may have dropped written data. A call of peer got the error.
// The kernel reports such an error once and then treats the pages as clean, so that another
// fsync would succeed.
func (s *subtree) lost(o *object, peer netip.AddrPort, err error) {
	s.verifier.Store(rand.Uint64())
	name := "rdmad"
	if peer != noPeer {
		name = peer.String()
	}
	s.log.Error("writing to stable storage failed: clients are asked to write again",
		slog.String("peer", name), slog.Uint64("fileid", o.ino), slog.Any("error", err))
}

// maxOwn is the most open files that calls have of their own, of all files of an export, so that
// one client's stable writes don't take the descriptors of others.
const maxOwn = 64

// startSync begins to bring data of a file to stable storage. The kernel reports an error of that
// once to each open file (struct file), so that of two calls with the same one only one would get
// it. startSync returns a descriptor of an open file for this call alone, or -1: then no other
// call uses those of o. It must come before data is written that must be stable.
func (o *object) startSync() (own int) {
	o.syncing.RLock()
	if o.errors.TryLock() {
		return -1
	}
	c := o.server.cache
	if c.own.Add(1) <= maxOwn && c.room() == nil {
		if fd, err := openAgain(o.path, unix.O_WRONLY); err == nil {
			c.files.Add(1)
			return fd
		}
	}
	c.own.Add(-1)
	o.errors.Lock()
	return -1
}

// endSync ends what startSync began, after an error has renewed the write verifier.
func (o *object) endSync(own int) {
	if own >= 0 {
		o.closeFD(own)
		o.server.cache.own.Add(-1)
	} else {
		o.errors.Unlock()
	}
	o.syncing.RUnlock()
}

// commit writes all data of o to stable storage (COMMIT, RFC 1813 §3.3.21) for a call of
// peer.
func (o *object) commit(peer netip.AddrPort) error {
	if o.server.volatile {
		o.dirty.Store(false)
		return nil
	}
	fd, err := o.writer()
	if isOneOf(err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ETXTBSY) {
		fd, err = o.reader() // a written file is flushed through this as well
	}
	if err != nil {
		return err
	}
	o.dirty.Store(false)
	own := o.startSync()
	if own >= 0 {
		fd = own
	}
	if err = unix.Fdatasync(fd); err != nil {
		o.server.lost(o, peer, err)
	}
	o.endSync(own)
	if err == nil {
		// Another call may have got the error of this one's data, and not renewed the
		// verifier yet.
		o.syncing.Lock()
		o.syncing.Unlock() //nolint:staticcheck // it only waits for the others
	}
	return err
}

// flushAndRelease releases the cache's reference. It first writes data to stable storage:
// the kernel reports a write-back error only to those who have the file open, and no one
// else might get it.
func (o *object) flushAndRelease() {
	if fd := int(o.write.Load()); fd >= 0 && o.dirty.Load() {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Nlink > 0 {
			_ = o.commit(noPeer) // an error has renewed the verifier
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
	fd, err := o.reader()
	if isOneOf(err, unix.EACCES) { // not root, and no right to read: only all of the file system can be written
		return unix.Syncfs(int(s.dir.Fd()))
	}
	if err != nil {
		return err
	}
	if o.isDir() {
		return unix.Fsync(fd)
	}
	own := o.startSync()
	defer o.endSync(own)
	if own >= 0 {
		fd = own
	}
	if err = unix.Fsync(fd); err != nil {
		s.lost(o, r.call.Peer, err)
	}
	return err
}

package nfs

import (
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// maxDirReply limits the results of READDIR and READDIRPLUS, in bytes. FSINFO returns it as
// dtpref.
const maxDirReply = 64 << 10

// dirList is a READDIR or READDIRPLUS in progress.
type dirList struct {
	r      *request
	dir    *object
	plus   bool // READDIRPLUS
	attrs  bool // attributes and handles are needed
	limit  int  // limit of the stream's length, without the end of the list
	names  int  // what is left of dircount
	count  int  // entries emitted
	filled bool // an entry did not fit
	// Of the current entry.
	st     unix.Stat_t
	handle fh.Handle
}

// listEnd is what comes after the last entry: end of list, eof.
const listEnd = 2 * xdr.Unit

// readdir is READDIR (RFC 1813 §3.3.16).
func (r *request) readdir() error {
	handle := r.handle()
	cookie, verifier := r.args.Uint64(), r.args.Uint64()
	count := r.args.Uint32()
	if err := r.decoded(); err != nil {
		return err
	}
	l := dirList{r: r, names: maxDirReply}
	return l.run(handle, cookie, verifier, count)
}

// readdirplus is READDIRPLUS (RFC 1813 §3.3.17). A dircount of 0 is no limit, as in NFSv4 (RFC
// 8881 §18.23.3): with NFS3ERR_TOOSMALL, which other servers do not answer here, nothing could be listed.
func (r *request) readdirplus() error {
	handle := r.handle()
	cookie, verifier := r.args.Uint64(), r.args.Uint64()
	dirCount, maxCount := r.args.Uint32(), r.args.Uint32()
	if err := r.decoded(); err != nil {
		return err
	}
	if dirCount == 0 {
		dirCount = maxDirReply
	}
	l := dirList{r: r, plus: true, names: int(min(dirCount, maxDirReply))}
	return l.run(handle, cookie, verifier, maxCount)
}

// run writes the listing into the reply. For both procedures, count is the largest size of
// READDIR3resok, in bytes, and dircount the largest size of what READDIR would return of
// the entries.
func (l *dirList) run(handle []byte, cookie, verifier uint64, count uint32) error {
	r := l.r
	start := len(r.reply.Stream)
	dir, err := r.directory(handle)
	l.dir = dir
	eof := false
	if err == nil {
		err = l.check(cookie, verifier)
	}
	if err == nil {
		r.begin(nil)
		l.limit = len(r.reply.Stream) + int(min(count, maxDirReply)) - listEnd
		r.appendAttrOf(dir)
		r.reply.Stream = xdr.AppendUint64(r.reply.Stream, r.srv.lister.verifier())
		eof, err = r.srv.lister.list(dir, cookie, l.emit)
		err = dir.orStale(err)
	}
	if err == nil && (len(r.reply.Stream) > l.limit || (l.filled && l.count == 0)) {
		err = errTooSmall
	}
	if err == nil {
		r.appendNone()
		r.reply.Stream = xdr.AppendBool(r.reply.Stream, eof)
	} else {
		r.reply.Stream = r.reply.Stream[:start]
		r.begin(err)
		r.appendAttrOf(dir)
	}
	dir.release()
	return nil
}

// check checks rights and cookie.
func (l *dirList) check(cookie, verifier uint64) error {
	r := l.r
	if cookie != 0 && verifier != r.srv.lister.verifier() {
		return errBadCookie
	}
	if err := r.srv.permitted(l.dir, &r.cred, mayRead); err != nil {
		return err
	}
	// A caller who may not search a directory sees only the names in it.
	l.attrs = (l.plus || r.srv.layered || r.srv.subvolumes || l.dir.dev != r.srv.top.dev) && r.srv.permitted(l.dir, &r.cred, mayExec) == nil
	return nil
}

// emit appends an entry, if it fits.
func (l *dirList) emit(e *dirent) bool {
	r := l.r
	base := e.size()
	start := len(r.reply.Stream)
	if base > l.names || start+base > l.limit {
		l.filled = true
		return false
	}
	known := l.look(e)
	dst := xdr.AppendUint32(r.reply.Stream, 1)
	dst = xdr.AppendUint64(dst, l.fileID(e, known))
	dst = xdr.AppendOpaque(dst, e.name)
	r.reply.Stream = xdr.AppendUint64(dst, e.cookie)
	if l.plus {
		l.appendObject(known)
	}
	if len(r.reply.Stream) > l.limit {
		r.reply.Stream = r.reply.Stream[:start]
		l.filled = true
		return false
	}
	l.names -= base
	l.count++
	return true
}

// look opens an entry if its attributes are needed. It returns false if it did not, or if the
// object is gone or another file system is mounted there.
func (l *dirList) look(e *dirent) bool {
	return l.attrs && (l.plus || l.elsewhere(e)) && l.open(e) == nil
}

// elsewhere reports whether an entry may be on another device than its directory, which does not
// tell: objects of overlayfs, and roots and parents of btrfs subvolumes.
func (l *dirList) elsewhere(e *dirent) bool {
	s := l.r.srv
	if isDot(e.name) {
		return s.layered || l.dir.dev != s.top.dev && len(e.name) == 2
	}
	return s.layered || s.subvolumes && e.dir
}

// fileID returns the number of an entry, the same as in its attributes. The parent of the
// export's root is the root itself.
func (l *dirList) fileID(e *dirent, known bool) uint64 {
	switch {
	case known:
		return l.r.srv.fileID(l.st.Ino, l.st.Dev)
	case l.dir == l.r.srv.top && string(e.name) == "..":
		return l.dir.ino
	}
	return l.r.srv.fileID(e.ino, l.dir.dev)
}

// appendObject appends name_attributes and name_handle of an entry. They are empty if it is not
// known.
func (l *dirList) appendObject(known bool) {
	r := l.r
	if !known {
		r.appendNone()
		r.appendNone()
		return
	}
	r.appendPostOp(&l.st)
	r.appendHandle(&l.handle)
}

// open gets attributes and handle of an entry into l.
func (l *dirList) open(e *dirent) error {
	s := l.r.srv
	switch {
	case string(e.name) == ".", isDot(e.name) && l.dir == s.top:
		l.handle = l.dir.handle
		return l.dir.stat(&l.st)
	case isDot(e.name):
		return l.openParent()
	case len(e.name) > maxName: // no client can use it
		return errNameTooLong
	}
	l.r.name.Set(e.name)
	return l.openNamed(&l.r.name)
}

// openNamed is open for a name that is neither "." nor "..".
func (l *dirList) openNamed(name *posix.Name) error {
	s := l.r.srv
	if id, err := s.identifyName(l.dir, name); err == nil && l.identified(&id) {
		s.locate.learn(l.dir, id, name)
		return nil
	}
	fd, err := s.openChild(l.dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	id, err := s.statID(fd, &l.st)
	if err != nil {
		return err
	}
	l.handle = s.codec.Seal(&id)
	s.locate.learn(l.dir, id, name)
	return nil
}

// identified is open for an entry with an ID. It returns false if the ID is not enough to
// find the object.
func (l *dirList) identified(id *fh.ID) bool {
	s := l.r.srv
	if o := s.cache.find(id, s.epoch.Load()); o != nil {
		defer o.release()
		l.handle = o.handle
		return o.stat(&l.st) == nil
	}
	if !s.opensIDs() {
		return false
	}
	fd, err := s.locate.open(l.r, *id)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	l.handle = s.codec.Seal(id)
	return unix.Fstat(fd, &l.st) == nil && l.st.Nlink > 0
}

func (l *dirList) openParent() error {
	o, err := l.r.srv.parent(l.dir, &l.st)
	if err != nil {
		return err
	}
	l.handle = o.handle
	o.release()
	return nil
}

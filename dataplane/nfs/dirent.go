package nfs

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// dirent is an entry of a directory. name aliases the buffer it was read into.
type dirent struct {
	ino    uint64
	cookie uint64 // where the listing continues after this entry; never 0
	name   []byte
	dir    bool // is a directory, as far as the file system says
}

// size returns what an entry has in the results of READDIR, with the word that says that it
// follows, in bytes.
func (e *dirent) size() int { return minDirent - xdr.Unit + xdr.Padded(len(e.name)) }

// minDirent is the size of an entry with a short name.
const minDirent = 7 * xdr.Unit

// Offsets in a struct linux_dirent64 (getdents64(2)). The name ends with a NUL.
const (
	direntIno    = 0
	direntOff    = 8
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// nextDirent removes the first entry from b, which getdents64 has filled.
func nextDirent(b []byte) (e dirent, rest []byte, ok bool) {
	if len(b) < direntName {
		return e, nil, false
	}
	ne := binary.NativeEndian
	n := int(ne.Uint16(b[direntReclen:]))
	if n < direntName || n > len(b) {
		return e, nil, false
	}
	e.ino = ne.Uint64(b[direntIno:])
	e.cookie = ne.Uint64(b[direntOff:])
	e.dir = b[direntType] == unix.DT_DIR
	e.name = b[direntName:n]
	if i := bytes.IndexByte(e.name, 0); i >= 0 {
		e.name = e.name[:i]
	}
	return e, b[n:], true
}

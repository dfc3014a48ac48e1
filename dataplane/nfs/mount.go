package nfs

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Procedures of program MOUNT (RFC 1813 §5.2).
const (
	mountNull = iota
	mountMnt
	mountDump
	mountUmnt
	mountUmntAll
	mountExport
	mountProcedures
)

// Versions of program MOUNT. Version 1 and 2 have handles of 32 bytes, which
// are too small for this server's: they tell what is exported and mounted, and
// refuse to mount.
const (
	mountVersion    = 3
	mountMinVersion = 1
)

var errMountVersion = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: mountMinVersion, High: mountVersion}

// exportName is the path of the export in answers to clients. "/", the
// configured path and its last part lead there as well.
const exportName = "/export"

// serveMount carries out a call of program MOUNT.
func (s *Server) serveMount(call *oncrpc.Call, reply *oncrpc.Reply) error {
	if call.Version < mountMinVersion || call.Version > mountVersion {
		return errMountVersion
	}
	d := xdr.NewDecoder(call.Args.Stream)
	peer := call.Peer.Addr()
	switch call.Procedure {
	case mountNull:
		return nil
	case mountMnt:
		return s.mnt(call, reply, &d)
	case mountDump:
		reply.Stream = s.mounts.appendList(reply.Stream)
		return nil
	case mountUmnt:
		path := call.Args.Opaque(&d, mount.MNTPATHLEN)
		if d.Err() != nil || !call.Args.Claimed() {
			return errGarbage
		}
		s.mounts.remove(mounted{peer, string(path)})
		return nil
	case mountUmntAll:
		if !call.Args.Claimed() {
			return errGarbage
		}
		s.mounts.removeAll(peer)
		return nil
	case mountExport:
		reply.Stream = appendExports(reply.Stream)
		return nil
	}
	return errProcUnavail
}

// mnt is MNT (RFC 1813 §5.2.1).
func (s *Server) mnt(call *oncrpc.Call, reply *oncrpc.Reply, d *xdr.Decoder) error {
	path := call.Args.Opaque(d, maxOpaque)
	if d.Err() != nil || !call.Args.Claimed() {
		return errGarbage
	}
	if call.Version != mountVersion {
		reply.Stream = xdr.AppendUint32(reply.Stream, uint32(mount.MNT3ERR_ACCES))
		return nil
	}
	o, status := s.mountPoint(path)
	reply.Stream = xdr.AppendUint32(reply.Stream, uint32(status))
	if status != mount.MNT3_OK {
		return nil
	}
	reply.Stream = xdr.AppendOpaque(reply.Stream, o.handle.Bytes())
	o.release()
	reply.Stream = xdr.AppendUint32(reply.Stream, 2) // flavors
	reply.Stream = xdr.AppendUint32(reply.Stream, authSys)
	reply.Stream = xdr.AppendUint32(reply.Stream, authNone)
	s.mounts.add(mounted{call.Peer.Addr(), string(path)})
	return nil
}

// mountPoint finds the directory that a path stands for.
func (s *Server) mountPoint(path []byte) (*object, mount.Mountstat3) {
	switch {
	case len(path) > mount.MNTPATHLEN:
		return nil, mount.MNT3ERR_NAMETOOLONG
	case len(path) == 0 || path[0] != '/' || bytes.IndexByte(path, 0) >= 0:
		return nil, mount.MNT3ERR_INVAL
	}
	if s.removed() {
		return nil, mount.MNT3ERR_NOENT
	}
	o := s.top
	o.refs.Add(1)
	for name := range strings.SplitSeq(s.within(string(path)), "/") {
		if name == "" || name == "." {
			continue
		}
		child, err := s.mountStep(o, name)
		o.release()
		if err != nil {
			status, _ := statusOf(err)
			if _, ok := mount.Mountstat3_name[mount.Mountstat3(status)]; !ok {
				return nil, mount.MNT3ERR_ACCES
			}
			return nil, mount.Mountstat3(status)
		}
		o = child
	}
	return o, mount.MNT3_OK
}

// removed says whether the exported directory was deleted. Its handle would still
// be well-formed, because rdmad has the directory open: a client could mount it,
// and then each call would fail with STALE.
func (s *Server) removed() bool {
	var st unix.Stat_t
	if err := unix.Fstat(s.top.path, &st); err != nil || st.Nlink > 0 {
		return false
	}
	s.log.Error("the exported directory was deleted: mounts are refused until it is made again and rdmad is restarted", "path", s.cfg.Path)
	return true
}

// within cuts off what stands for the export's root.
func (s *Server) within(path string) string {
	full, _ := filepath.Abs(s.cfg.Path)
	for _, prefix := range [...]string{exportName, full, "/" + filepath.Base(full)} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && (rest == "" || rest[0] == '/') {
			return rest
		}
	}
	return path
}

// mountStep goes down one directory.
func (s *Server) mountStep(dir *object, name string) (*object, error) {
	if name == ".." {
		return nil, errAccess
	}
	if err := checkName([]byte(name)); err != nil {
		return nil, err
	}
	var at posix.Name
	at.Set([]byte(name))
	fd, err := s.openChild(dir, &at)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	o, err := s.child(dir, fd, &at, &st, false)
	if err != nil {
		return nil, err
	}
	if !o.isDir() {
		o.release()
		return nil, errNotDir
	}
	return o, nil
}

// appendExports appends an exports list: one, for everybody.
func appendExports(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, 1)
	dst = xdr.AppendString(dst, exportName)
	dst = xdr.AppendUint32(dst, 0) // no groups
	return xdr.AppendUint32(dst, 0)
}

// mounted is an entry of the mount list.
type mounted struct {
	peer netip.Addr
	path string
}

// mountTable is who has mounted what, for DUMP. It is hearsay (RFC 1813
// §5.2.2): clients go without a word.
type mountTable struct {
	mu   sync.Mutex
	list []mounted
}

// maxMounts bounds the table: the oldest entry makes room.
const maxMounts = 256

func (t *mountTable) add(m mounted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, have := range t.list {
		if have == m {
			return
		}
	}
	if len(t.list) == maxMounts {
		t.list = append(t.list[:0], t.list[1:]...)
	}
	t.list = append(t.list, m)
}

func (t *mountTable) remove(m mounted) {
	t.keep(func(have mounted) bool { return have != m })
}

func (t *mountTable) removeAll(peer netip.Addr) {
	t.keep(func(have mounted) bool { return have.peer != peer })
}

func (t *mountTable) keep(wanted func(mounted) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.list[:0]
	for _, m := range t.list {
		if wanted(m) {
			kept = append(kept, m)
		}
	}
	t.list = kept
}

// appendList appends a mountlist.
func (t *mountTable) appendList(dst []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.list {
		dst = xdr.AppendUint32(dst, 1)
		dst = xdr.AppendString(dst, m.peer.String())
		dst = xdr.AppendString(dst, m.path)
	}
	return xdr.AppendUint32(dst, 0)
}

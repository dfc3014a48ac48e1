package nfs

import (
	"bytes"
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
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
)

// Versions of program MOUNT. Versions 1 and 2 have handles of 32 bytes, which are too small
// for this server. They answer what is exported and mounted, and refuse to mount.
const (
	mountVersion    = 3
	mountMinVersion = 1
)

var errMountVersion = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: mountMinVersion, High: mountVersion}

// exportName is the path of Config.Export in answers to clients. "/", the configured path and
// its last part are the same.
const exportName = "/export"

// serveMount executes a call of program MOUNT.
func (s *Server) serveMount(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if call.Version < mountMinVersion || call.Version > mountVersion {
		return errMountVersion
	}
	d := xdr.NewDecoder(call.Args.Stream)
	peer := call.Peer.Addr()
	switch call.Procedure {
	case mountNull:
		return nil
	case mountMnt:
		return s.mnt(ctx, call, reply, &d)
	case mountDump:
		reply.Stream = s.mounts.appendList(reply.Stream)
		return nil
	case mountUmnt:
		path := call.Args.Opaque(&d, mount.MNTPATHLEN)
		if d.Err() != nil || !call.Args.Claimed() {
			return errGarbage
		}
		s.mounts.remove(func(m mounted) bool { return m == mounted{peer, string(path)} })
		return nil
	case mountUmntAll:
		if !call.Args.Claimed() {
			return errGarbage
		}
		s.mounts.remove(func(m mounted) bool { return m.peer == peer })
		return nil
	case mountExport:
		reply.Stream = s.appendExports(reply.Stream)
		return nil
	}
	return errProcUnavail
}

// mnt is MNT (RFC 1813 §5.2.1).
func (s *Server) mnt(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply, d *xdr.Decoder) error {
	path := call.Args.Opaque(d, maxOpaque)
	if d.Err() != nil || !call.Args.Claimed() {
		return errGarbage
	}
	if call.Version != mountVersion {
		reply.Stream = xdr.AppendUint32(reply.Stream, uint32(mount.MNT3ERR_ACCES))
		return nil
	}
	o, status := s.mountPoint(ctx, path, call.Peer.Addr())
	reply.Stream = xdr.AppendUint32(reply.Stream, uint32(status))
	if status != mount.MNT3_OK {
		return nil
	}
	reply.Stream = xdr.AppendOpaque(reply.Stream, o.handle.Bytes())
	o.release()
	o.server.life.RUnlock()
	reply.Stream = xdr.AppendUint32(reply.Stream, 2) // flavors
	reply.Stream = xdr.AppendUint32(reply.Stream, oncrpc.FlavorSys)
	reply.Stream = xdr.AppendUint32(reply.Stream, oncrpc.FlavorNone)
	s.mounts.add(mounted{call.Peer.Addr(), string(path)})
	return nil
}

// mostMounting is how many MNTs of one export may be in its file system at once, each with a
// thread. Further ones wait for mountPatience, after which Linux's clients have given up. So
// while the file system hangs, clients that try again and again keep few places for connections,
// and the others are there for MNTs of other exports.
const (
	mostMounting  = 16
	mountPatience = 3 * time.Minute
)

// mountPoint returns the directory with a path. The caller must release the directory, and
// then life of its subtree.
func (s *Server) mountPoint(ctx context.Context, path []byte, peer netip.Addr) (*object, mount.Mountstat3) {
	switch {
	case len(path) > mount.MNTPATHLEN:
		return nil, mount.MNT3ERR_NAMETOOLONG
	case len(path) == 0 || path[0] != '/' || bytes.IndexByte(path, 0) >= 0:
		return nil, mount.MNT3ERR_INVAL
	}
	e, below := s.exportAt(string(path))
	if e == nil || e.optionsFor(peer) == nil {
		return nil, mount.MNT3ERR_ACCES
	}
	select {
	case e.mounting <- struct{}{}:
		defer func() { <-e.mounting }()
	case <-time.After(mountPatience):
		return nil, mount.MNT3ERR_SERVERFAULT
	case <-ctx.Done():
		return nil, mount.MNT3ERR_SERVERFAULT
	}
	e.check()
	tree := e.enter()
	if tree == nil {
		return nil, mount.MNT3ERR_NOENT
	}
	o, status := tree.descend(below)
	if o == nil {
		tree.life.RUnlock()
	}
	return o, status
}

// exportAt finds the export that a path belongs to, and the rest of the path.
func (s *Server) exportAt(path string) (found *exportPoint, below string) {
	for _, e := range s.exports {
		if rest, ok := cutPath(path, e.full); ok && (found == nil || len(rest) < len(below)) {
			found, below = e, rest
		}
	}
	first := s.exports[0]
	if found != nil || !first.first {
		return found, below
	}
	for _, name := range [...]string{exportName, "/" + filepath.Base(first.full)} {
		if rest, ok := cutPath(path, name); ok {
			return first, rest
		}
	}
	return first, path
}

// cutPath removes a directory from the beginning of a path.
func cutPath(path, dir string) (rest string, ok bool) {
	if dir == "/" {
		return path, true
	}
	rest, ok = strings.CutPrefix(path, dir)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// descend returns the directory with a path below the root.
func (s *subtree) descend(path string) (*object, mount.Mountstat3) {
	if s.deleted() {
		return nil, mount.MNT3ERR_NOENT
	}
	o := s.top
	o.refs.Add(1)
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		child, err := s.mountStep(o, name)
		o.release()
		if err != nil {
			return nil, mountStatus(err)
		}
		o = child
	}
	return o, mount.MNT3_OK
}

// mountStatus returns the status of MNT for an error of a directory on its path. MNT has fewer than
// the calls of NFS. Its MNT3ERR_ACCES would send the user to the configuration, which is not wrong.
func mountStatus(err error) mount.Mountstat3 {
	status, _ := statusOf(err)
	if _, ok := mount.Mountstat3_name[mount.Mountstat3(status)]; ok {
		return mount.Mountstat3(status)
	}
	if status == nfsv3.NFS3ERR_STALE { // it was removed meanwhile
		return mount.MNT3ERR_NOENT
	}
	return mount.MNT3ERR_SERVERFAULT
}

// mountStep goes down one directory.
func (s *subtree) mountStep(dir *object, name string) (*object, error) {
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

// appendExports appends the list of exports, with the networks that have access. An export
// without networks is for all clients.
func (s *Server) appendExports(dst []byte) []byte {
	for _, e := range s.exports {
		name := e.full
		if e.first {
			name = exportName
		}
		dst = xdr.AppendUint32(dst, 1)
		dst = xdr.AppendString(dst, name)
		for _, r := range e.rules {
			dst = xdr.AppendUint32(dst, 1)
			dst = xdr.AppendString(dst, r.network.String())
		}
		dst = xdr.AppendUint32(dst, 0)
	}
	return xdr.AppendUint32(dst, 0)
}

// mounted is an entry of the mount list.
type mounted struct {
	peer netip.Addr
	path string
}

// Mounts lists the clients that have mounted something, for DUMP. It may be wrong (RFC
// 1813 §5.2.2): clients need not say when they unmount. The zero Mounts has none.
type Mounts struct {
	mu   sync.Mutex
	list []mounted
}

// maxMounts limits the table. The oldest entry is dropped.
const maxMounts = 256

func (t *Mounts) add(m mounted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.list, m) {
		return
	}
	if len(t.list) == maxMounts {
		t.list = append(t.list[:0], t.list[1:]...)
	}
	t.list = append(t.list, m)
}

func (t *Mounts) remove(gone func(mounted) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, gone)
}

// appendList appends a mountlist.
func (t *Mounts) appendList(dst []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.list {
		dst = xdr.AppendUint32(dst, 1)
		dst = xdr.AppendString(dst, m.peer.String())
		dst = xdr.AppendString(dst, m.path)
	}
	return xdr.AppendUint32(dst, 0)
}

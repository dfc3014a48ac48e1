package nfs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestMain leaves out what this process has no right to: tests named TestRoot…
// need root, those named TestPrivileged… the right to mount, too. As root,
// TestRootRunsAllAsUser runs the others once more as another user.
func TestMain(m *testing.M) {
	flag.Parse()
	switch given := flag.Lookup("test.skip").Value.String(); {
	case given != "":
	case !isRoot:
		leaveOut("^Test(Root|Privileged)")
	case !mayMount():
		leaveOut("^TestPrivileged")
	}
	var err error
	if stateDir, err = os.MkdirTemp("", "nfs-state"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(stateDir)
		os.Exit(code)
	}))
}

func leaveOut(tests string) {
	fmt.Fprintln(os.Stderr, "no right to do what tests named", tests, "need: leaving them out")
	if err := flag.Set("test.skip", tests); err != nil {
		panic(err)
	}
}

func mayMount() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// stateDir is one for all tests: to make a key takes time, as it is brought to
// the disk.
var stateDir string

// buffers is a transport's memory that counts what it has given out.
type buffers struct{ out atomic.Int64 }

type buffer struct {
	b []byte
	m *buffers
}

func (m *buffers) Alloc(_ context.Context, n int) (oncrpc.Buffer, error) {
	m.out.Add(1)
	return &buffer{make([]byte, n), m}, nil
}

func (b *buffer) Bytes() []byte { return b.b }
func (b *buffer) Release()      { b.m.out.Add(-1) }

// export is a server over a directory of its own, and what it has open.
type export struct {
	*subtree
	server *Server
	t      testing.TB
	dir    string
	cfg    Config
	opt    options
	mem    *buffers
	xids   atomic.Uint32
}

// serve starts a server over a new directory.
func serve(t testing.TB, opt options, change ...func(*Config)) *export {
	t.Helper()
	return serveIn(t, tempDir(t), opt, change...)
}

// serveIn starts a server over a new directory in base. It leaves names and
// attributes to the kernel, as tests make many; TestSyncMetadata does not.
func serveIn(t testing.TB, base string, opt options, change ...func(*Config)) *export {
	t.Helper()
	x := &export{t: t, dir: filepath.Join(base, "export"), opt: opt, mem: &buffers{}}
	if err := os.Mkdir(x.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	x.cfg = Config{Export: Export{Path: x.dir}, StateDir: stateDir, AsyncMetadata: true, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&x.cfg)
	}
	x.start()
	t.Cleanup(func() {
		x.Close()
		if x.subtree != nil && x.cache.files.Load() != 0 {
			t.Errorf("%d descriptors of objects left open", x.cache.files.Load())
		}
		if n := x.mem.out.Load(); n != 0 {
			t.Errorf("%d reply buffers not released", n)
		}
	})
	return x
}

// tempDir is t.TempDir that other users can enter.
func tempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	return dir
}

// request is a call that has not begun.
func (x *export) request() *request { return &request{srv: x.subtree, ctx: x.t.Context()} }

func (x *export) object(handle []byte) (*object, error) { return x.request().object(handle) }

func (x *export) start() {
	x.t.Helper()
	s, err := newServer(x.cfg, x.opt)
	if err != nil {
		x.t.Fatal(err)
	}
	x.server, x.subtree = s, s.exports[0].tree.Load()
}

func (x *export) Close() error { return x.server.Close() }

func (x *export) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return x.server.ServeRPC(ctx, call, reply)
}

// restart is the end of the daemon and a new one over the same directory.
func (x *export) restart() {
	x.t.Helper()
	if err := x.Close(); err != nil {
		x.t.Fatal(err)
	}
	x.start()
}

func (x *export) path(name string) string { return filepath.Join(x.dir, name) }

// as is a client with the credential of a user.
func (x *export) as(uid, gid uint32, gids ...uint32) *client {
	a := oncrpc.AuthSys{MachineName: []byte("test"), UID: uid, GID: gid, GIDs: gids}
	return &client{x: x, cred: oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: a.Append(nil)}, peer: netip.MustParseAddrPort("192.0.2.1:700")}
}

// client makes calls the way a transport would, with arguments from go-xdr and
// results checked and decoded by it.
type client struct {
	x    *export
	cred oncrpc.Auth
	peer netip.AddrPort
}

// raw makes a call and returns its results as one stream.
func (c *client) raw(program, version, proc, xid uint32, args oncrpc.Payload) ([]byte, error) {
	call := &oncrpc.Call{XID: xid, Program: program, Version: version, Procedure: proc, Cred: c.cred, Args: args, Peer: c.peer}
	reply := &oncrpc.Reply{Mem: c.x.mem}
	err := c.x.ServeRPC(context.Background(), call, reply)
	defer reply.Release()
	if err != nil {
		return nil, err
	}
	return flatten(reply), nil
}

// flatten puts items back into their stream.
func flatten(r *oncrpc.Reply) []byte {
	var out []byte
	at := 0
	for _, it := range r.Items {
		out = append(out, r.Stream[at:it.Pos]...)
		out = append(out, it.Buf.Bytes()[:it.Len]...)
		out = xdr.AppendPad(out, it.Len)
		at = it.Pos
	}
	return append(out, r.Stream[at:]...)
}

// nfs makes a call of program NFS with the arguments of go-xdr.
func (c *client) nfs(proc uint32, args io.WriterTo) *bytes.Reader {
	c.x.t.Helper()
	var b bytes.Buffer
	if _, err := args.WriteTo(&b); err != nil {
		c.x.t.Fatal(err)
	}
	out, err := c.raw(Program, Version, proc, c.x.xids.Add(1), oncrpc.Payload{Stream: b.Bytes()})
	if err != nil {
		c.x.t.Fatalf("procedure %d: %v", proc, err)
	}
	if len(out)%4 != 0 {
		c.x.t.Fatalf("procedure %d: results of %d bytes", proc, len(out))
	}
	return bytes.NewReader(out)
}

// decoded is what a decoder of go-xdr returns; it fails the test when the
// results are malformed or longer than they should be.
func decoded[T any](c *client, r *bytes.Reader, read func(io.Reader) (T, int64, error)) T {
	c.x.t.Helper()
	v, _, err := read(r)
	if err != nil {
		c.x.t.Fatalf("results: %v", err)
	}
	if r.Len() != 0 {
		c.x.t.Fatalf("%d bytes after the results", r.Len())
	}
	return v
}

// answer makes a call. Its results are nil unless the status is OK.
func answer[OK any, R interface{ GetStatus() nfsv3.Nfsstat3 }](c *client, proc uint32, args io.WriterTo, read func(io.Reader) (R, int64, error)) (ok OK, status nfsv3.Nfsstat3) {
	c.x.t.Helper()
	res := decoded(c, c.nfs(proc, args), read)
	ok, _ = any(res).(OK)
	return ok, res.GetStatus()
}

func fhOf(b []byte) nfsv3.NfsFh3 { return nfsv3.NfsFh3{Data: b} }

// mnt gets the handle of the export's root.
func (c *client) mnt(path string) ([]byte, mount.Mountstat3) {
	c.x.t.Helper()
	out, err := c.raw(MountProgram, 3, mountMnt, 1, oncrpc.Payload{Stream: xdr.AppendString(nil, path)})
	if err != nil {
		c.x.t.Fatal(err)
	}
	switch res := decoded(c, bytes.NewReader(out), mount.ReadMountres3).(type) {
	case *mount.Mountres3_MNT3_OK:
		return res.Mountinfo.Fhandle, mount.MNT3_OK
	case *mount.Mountres3_default:
		return nil, res.FhsStatus
	}
	panic("unreachable")
}

func (c *client) root() []byte {
	c.x.t.Helper()
	h, status := c.mnt("/export")
	if status != mount.MNT3_OK {
		c.x.t.Fatalf("mount: %v", status)
	}
	return h
}

func attrOf(a nfsv3.PostOpAttr) *nfsv3.Fattr3 {
	if t, ok := a.(*nfsv3.PostOpAttr_TRUE); ok {
		return &t.Attributes
	}
	return nil
}

func handleOf(h nfsv3.PostOpFh3) []byte {
	if t, ok := h.(*nfsv3.PostOpFh3_TRUE); ok {
		return t.Handle.Data
	}
	return nil
}

func (c *client) getattr(h []byte) (*nfsv3.Fattr3, nfsv3.Nfsstat3) {
	c.x.t.Helper()
	ok, status := answer[*nfsv3.Getattr3res_NFS3_OK](c, 1, &nfsv3.Getattr3args{Object: fhOf(h)}, nfsv3.ReadGetattr3res)
	if ok == nil {
		return nil, status
	}
	return &ok.Resok.ObjAttributes, status
}

func (c *client) lookup(dir []byte, name string) ([]byte, nfsv3.Nfsstat3) {
	c.x.t.Helper()
	ok, status := answer[*nfsv3.Lookup3res_NFS3_OK](c, 3, &nfsv3.Lookup3args{What: nfsv3.Diropargs3{Dir: fhOf(dir), Name: name}}, nfsv3.ReadLookup3res)
	if ok == nil {
		return nil, status
	}
	return ok.Resok.Object.Data, status
}

func noChange() nfsv3.Sattr3 {
	return nfsv3.Sattr3{Mode: &nfsv3.SetMode3_default{}, Uid: &nfsv3.SetUid3_default{}, Gid: &nfsv3.SetGid3_default{},
		Size: &nfsv3.SetSize3_default{}, Atime: &nfsv3.SetAtime_default{}, Mtime: &nfsv3.SetMtime_default{}}
}

func withMode(mode uint32) nfsv3.Sattr3 {
	a := noChange()
	a.Mode = &nfsv3.SetMode3_TRUE{Mode: mode}
	return a
}

func (c *client) create(dir []byte, name string, how nfsv3.Createhow3) ([]byte, nfsv3.Nfsstat3) {
	c.x.t.Helper()
	ok, status := answer[*nfsv3.Create3res_NFS3_OK](c, 8, &nfsv3.Create3args{Where: nfsv3.Diropargs3{Dir: fhOf(dir), Name: name}, How: how}, nfsv3.ReadCreate3res)
	if ok == nil {
		return nil, status
	}
	return handleOf(ok.Resok.Obj), status
}

func (c *client) mkfile(dir []byte, name string) []byte {
	c.x.t.Helper()
	h, status := c.create(dir, name, &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)})
	if status != nfsv3.NFS3_OK {
		c.x.t.Fatalf("create %s: %v", name, status)
	}
	return h
}

func (c *client) write(h []byte, offset uint64, data []byte, how nfsv3.StableHow) (*nfsv3.Write3resok, nfsv3.Nfsstat3) {
	c.x.t.Helper()
	ok, status := answer[*nfsv3.Write3res_NFS3_OK](c, 7, &nfsv3.Write3args{File: fhOf(h), Offset: offset, Count: uint32(len(data)), Stable: how, Data: data}, nfsv3.ReadWrite3res)
	if ok == nil {
		return nil, status
	}
	return &ok.Resok, status
}

func (c *client) read(h []byte, offset uint64, count uint32) (*nfsv3.Read3resok, nfsv3.Nfsstat3) {
	c.x.t.Helper()
	ok, status := answer[*nfsv3.Read3res_NFS3_OK](c, 6, &nfsv3.Read3args{File: fhOf(h), Offset: offset, Count: count}, nfsv3.ReadRead3res)
	if ok == nil {
		return nil, status
	}
	return &ok.Resok, status
}

// isRoot: the tests run as root, as CI's container does.
var isRoot = unix.Geteuid() == 0

// payload is a diropargs3, for names that go-xdr does not take.
func payload(dir []byte, name string) oncrpc.Payload {
	return oncrpc.Payload{Stream: xdr.AppendString(xdr.AppendOpaque(nil, dir), name)}
}

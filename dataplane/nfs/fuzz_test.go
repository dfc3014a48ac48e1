package nfs

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// A token in fuzzed arguments stands for a handle, as handles differ from run
// to run: tokenMark and the index of an object.
var tokenMark = []byte{0xfe, 'F', 'H'}

// fuzzNames are the objects that fuzzed arguments can name: the root, what is
// in it, and one that is gone.
var fuzzNames = []string{".", "d", "f", "l", "gone"}

// fuzzExport makes sure that all objects are there and returns their handles.
func fuzzExport(t testing.TB, x *export, gone []byte) [][]byte {
	must(t, os.Chmod(x.dir, 0o755))
	if fi, err := os.Lstat(x.path("d")); err != nil || !fi.IsDir() {
		_ = os.RemoveAll(x.path("d"))
		must(t, os.Mkdir(x.path("d"), 0o755))
	}
	if fi, err := os.Lstat(x.path("f")); err != nil || !fi.Mode().IsRegular() {
		_ = os.RemoveAll(x.path("f"))
		must(t, os.WriteFile(x.path("f"), []byte("content"), 0o644))
	}
	if fi, err := os.Lstat(x.path("l")); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		_ = os.RemoveAll(x.path("l"))
		must(t, os.Symlink("/etc/passwd", x.path("l")))
	}
	c := x.me()
	root := c.root()
	handles := [][]byte{root}
	for _, name := range fuzzNames[1:4] {
		handles = append(handles, c.mustLookup(root, name))
	}
	return append(handles, gone)
}

// expand puts handles in the place of tokens.
func expand(b []byte, handles [][]byte) []byte {
	var out []byte
	for {
		i := bytes.Index(b, tokenMark)
		if i < 0 || i+len(tokenMark) == len(b) {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		out = xdr.AppendOpaque(out, handles[int(b[i+len(tokenMark)])%len(handles)])
		b = b[i+len(tokenMark)+1:]
	}
}

// seed is the arguments of a procedure about the object with that index.
func seed(t testing.TB, proc uint32, index byte) []byte {
	var b bytes.Buffer
	h := []byte("a handle of 28 bytes length.")
	_, err := argsFor(proc, h).WriteTo(&b)
	must(t, err)
	return bytes.ReplaceAll(b.Bytes(), xdr.AppendOpaque(nil, h), append(bytes.Clone(tokenMark), index))
}

// Whatever the arguments are, a call is answered with results that go-xdr can
// read, or as garbage, and nothing stays behind.
func FuzzArguments(f *testing.F) {
	for proc := uint32(1); proc < procedureCount; proc++ {
		for index := range byte(len(fuzzNames)) {
			f.Add(proc, seed(f, proc, index), uint16(0), []byte(nil))
		}
		f.Add(proc, seed(f, proc, 0)[:4], uint16(4), []byte("item"))
	}
	for _, how := range []nfsv3.Createhow3{
		&nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(3)}, &nfsv3.Createhow3_EXCLUSIVE{Verf: [8]byte{1}},
	} {
		var b bytes.Buffer
		_, err := (&nfsv3.Create3args{Where: in(nil, "f"), How: how}).WriteTo(&b)
		must(f, err)
		f.Add(uint32(8), append(append(bytes.Clone(tokenMark), 0), b.Bytes()[4:]...), uint16(0), []byte(nil))
	}
	x := serve(f, options{})
	c := x.me()
	root := c.root()
	gone := c.mkfile(root, "gone")
	must(f, os.Remove(x.path("gone")))
	f.Fuzz(func(t *testing.T, proc uint32, args []byte, pos uint16, item []byte) {
		x.t = t
		proc = 1 + proc%(procedureCount-1)
		p := oncrpc.Payload{Stream: expand(args, fuzzExport(t, x, gone))}
		if item != nil {
			p.Items = []oncrpc.Item{{Pos: int(pos), Data: item}}
		}
		call := &oncrpc.Call{XID: x.xids.Add(1), Program: Program, Version: Version, Procedure: proc, Cred: c.cred, Args: p, Peer: c.peer}
		reply := &oncrpc.Reply{Mem: x.mem}
		err := x.ServeRPC(context.Background(), call, reply)
		out := flatten(reply)
		reply.Release()
		if err != nil {
			if !errors.Is(err, errGarbage) {
				t.Fatalf("%s: %v", procedureNames[proc], err)
			}
			return
		}
		if _, err := checkResults(proc, out); err != nil {
			t.Fatalf("%s: %v\n% x", procedureNames[proc], err, out)
		}
		if n := x.mem.out.Load(); n != 0 {
			t.Fatalf("%s: %d buffers not released", procedureNames[proc], n)
		}
	})
}

// The same for program MOUNT.
func FuzzMount(f *testing.F) {
	for _, path := range []string{"/export", "/", "/export/d", "//x/../..", ""} {
		f.Add(uint32(3), uint32(mountMnt), xdr.AppendString(nil, path))
		f.Add(uint32(1), uint32(mountUmnt), xdr.AppendString(nil, path))
	}
	f.Add(uint32(2), uint32(mountDump), []byte{})
	x := serve(f, options{})
	must(f, os.Mkdir(x.path("d"), 0o755))
	c := x.me()
	f.Fuzz(func(t *testing.T, version, proc uint32, args []byte) {
		x.t = t
		out, err := c.raw(MountProgram, version, proc, 1, oncrpc.Payload{Stream: args})
		if err != nil && !errors.Is(err, errGarbage) && !errors.Is(err, errMountVersion) && !errors.Is(err, errProcUnavail) {
			t.Fatal(err)
		}
		if len(out)%4 != 0 {
			t.Fatalf("results of %d bytes", len(out))
		}
	})
}

// A credential that can't be decoded denies the call, and that is all.
func FuzzCredential(f *testing.F) {
	good := oncrpc.AuthSys{MachineName: []byte("host"), UID: 1000, GID: 100, GIDs: []uint32{4, 5}}
	f.Add(uint32(oncrpc.FlavorSys), good.Append(nil))
	f.Add(uint32(oncrpc.FlavorNone), []byte{})
	f.Add(uint32(6), []byte{1})
	x := serve(f, options{})
	root := x.me().root()
	f.Fuzz(func(t *testing.T, flavor uint32, body []byte) {
		x.t = t
		c := x.me()
		c.cred = oncrpc.Auth{Flavor: flavor, Body: body}
		out, err := c.raw(Program, Version, 4, 1, oncrpc.Payload{Stream: xdr.AppendUint32(xdr.AppendOpaque(nil, root), 0x3f)})
		if err != nil {
			if _, denied := errors.AsType[*oncrpc.DeniedError](err); !denied {
				t.Fatal(err)
			}
			return
		}
		if _, err := checkResults(4, out); err != nil {
			t.Fatal(err)
		}
	})
}

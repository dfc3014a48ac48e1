package nfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	rand.New(rand.NewSource(int64(n))).Read(b)
	return b
}

var sizes = []int{0, 1, 3, 4, 5, 4095, 4096, 4097, 65535, MaxIO - 1, MaxIO}

func TestReadWriteSizes(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for _, n := range sizes {
		for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.DATA_SYNC, nfsv3.FILE_SYNC} {
			name := fmt.Sprintf("f%d-%d", n, how)
			f := c.mkfile(root, name)
			data := pattern(n)
			res, status := c.write(f, 0, data, how)
			if status != nfsv3.NFS3_OK || int(res.Count) != n || res.Committed != how {
				t.Fatalf("WRITE %d: %v %+v", n, status, res)
			}
			if a := attrOf(res.FileWcc.After); a == nil || int(a.Size) != n {
				t.Errorf("WRITE %d: attributes %+v", n, a)
			}
			got, status := c.read(f, 0, MaxIO)
			if status != nfsv3.NFS3_OK || !got.Eof || !bytes.Equal(got.Data, data) || int(got.Count) != n {
				t.Errorf("READ %d: %v, eof %v, %d bytes", n, status, got.Eof, len(got.Data))
			}
			if onDisk, err := os.ReadFile(x.path(name)); err != nil || !bytes.Equal(onDisk, data) {
				t.Errorf("on disk: %v, %d bytes of %d", err, len(onDisk), n)
			}
		}
	}
}

func TestReadAtTheEnd(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	data := pattern(1000)
	c.write(f, 0, data, nfsv3.UNSTABLE)
	cases := []struct {
		offset uint64
		count  uint32
		want   []byte
		eof    bool
	}{
		{0, 1000, data, true},
		{0, 999, data[:999], false},
		{0, 1 << 31, data, true},
		{999, 1, data[999:], true},
		{999, 2, data[999:], true},
		{1000, 1, nil, true},
		{1001, 1, nil, true},
		{1 << 62, 4096, nil, true},
		{1<<64 - 1, 4096, nil, true},
		{10, 0, nil, false},
		{1000, 0, nil, true},
	}
	for _, tc := range cases {
		got, status := c.read(f, tc.offset, tc.count)
		if status != nfsv3.NFS3_OK || !bytes.Equal(got.Data, tc.want) || got.Eof != tc.eof || int(got.Count) != len(tc.want) {
			t.Errorf("offset %d count %d: %v, %d bytes, eof %v", tc.offset, tc.count, status, len(got.Data), got.Eof)
		}
	}
}

// READ relies on no size that it has seen before: others on this machine may
// change files as well.
func TestReadOfAChangingFile(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.read(f, 0, 1) // opens it
	for _, n := range []int{1000, 5, 70000, 0, 3, MaxIO, 4096} {
		data := pattern(n)
		must(t, os.WriteFile(x.path("f"), data, 0o644))
		for _, count := range []uint32{MaxIO, 4096, 1} {
			want := data[:min(n, int(count))]
			got, status := c.read(f, 0, count)
			if status != nfsv3.NFS3_OK || !bytes.Equal(got.Data, want) || got.Eof != (len(want) == n) {
				t.Errorf("%d of %d bytes: %v, %d bytes, eof %v", count, n, status, len(got.Data), got.Eof)
			}
		}
	}
	must(t, os.Remove(x.path("f")))
	c.want(6, argsFor(6, f), nfsv3.NFS3ERR_STALE)
}

// Holes read as zeros and take no space; sizes have 64 bits.
func TestSparseFiles(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	const far = 6 << 30
	c.write(f, far, []byte("end"), nfsv3.UNSTABLE)
	if a := c.mustAttr(f); a.Size != far+3 || a.Used > 1<<20 {
		t.Errorf("size %d, used %d", a.Size, a.Used)
	}
	got, _ := c.read(f, far-5, 100)
	if string(got.Data) != "\x00\x00\x00\x00\x00end" {
		t.Errorf("%q", got.Data)
	}
	c.mustSet(f, withSize(10))
	if got, _ := c.read(f, 0, 100); !bytes.Equal(got.Data, make([]byte, 10)) || !got.Eof {
		t.Errorf("after truncating: %q", got.Data)
	}
}

func TestWriteLimits(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	c.want(7, &nfsv3.Write3args{File: fhOf(f), Offset: 1<<63 - 1, Count: 1, Data: []byte{1}}, nfsv3.NFS3ERR_FBIG)
	c.want(7, &nfsv3.Write3args{File: fhOf(f), Offset: 1<<64 - 1, Count: 1, Data: []byte{1}}, nfsv3.NFS3ERR_FBIG)
	c.want(7, &nfsv3.Write3args{File: fhOf(root), Count: 1, Data: []byte{1}}, nfsv3.NFS3ERR_INVAL)
	c.want(6, &nfsv3.Read3args{File: fhOf(root), Count: 1}, nfsv3.NFS3ERR_INVAL)
	// More than is allowed at once is cut.
	big := pattern(MaxIO + 4)
	if res, status := c.write(f, 0, big, nfsv3.UNSTABLE); status != nfsv3.NFS3_OK || res.Count != MaxIO {
		t.Errorf("%v %+v", status, res)
	}
	if got, status := c.read(f, 0, MaxIO+4); status != nfsv3.NFS3_OK || len(got.Data) != MaxIO {
		t.Errorf("%v, %d bytes", status, len(got.Data))
	}
	x.maxFile = 100 // as RLIMIT_FSIZE would have it
	c.want(7, &nfsv3.Write3args{File: fhOf(f), Offset: 99, Count: 2, Data: []byte{1, 2}}, nfsv3.NFS3ERR_FBIG)
	c.want(7, &nfsv3.Write3args{File: fhOf(f), Offset: 98, Count: 2, Data: []byte{1, 2}}, nfsv3.NFS3_OK)
}

// writeArgs are the arguments of a WRITE, with count as given.
func writeArgs(h []byte, offset uint64, count uint32, how nfsv3.StableHow, data []byte) []byte {
	b := xdr.AppendOpaque(nil, h)
	b = xdr.AppendUint64(b, offset)
	b = xdr.AppendUint32(b, count)
	b = xdr.AppendUint32(b, uint32(how))
	return xdr.AppendOpaque(b, data)
}

// Data that RDMA has placed apart is written from where it stands.
func TestWriteFromItems(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for _, n := range sizes[1:] {
		f := c.mkfile(root, fmt.Sprint("f", n))
		data := pattern(n)
		stream := writeArgs(f, 0, uint32(n), nfsv3.UNSTABLE, nil)
		stream = xdr.AppendUint32(stream[:len(stream)-4], uint32(n))
		at := n / 3
		for _, it := range []oncrpc.Item{
			{Pos: len(stream), Data: data},
			{Pos: len(stream), Data: data[:at], More: [][]byte{data[at : 2*at], data[2*at:]}},
			{Pos: len(stream), Data: data[:at], More: [][]byte{data[at:], make([]byte, xdr.Pad(n))}},
		} {
			must(t, os.Truncate(x.path(fmt.Sprint("f", n)), 0))
			out, err := c.raw(Program, Version, 7, x.xids.Add(1), oncrpc.Payload{Stream: stream, Items: []oncrpc.Item{it}})
			must(t, err)
			if status, err := checkResults(7, out); status != nfsv3.NFS3_OK || err != nil {
				t.Fatalf("%d bytes: %v %v", n, status, err)
			}
			if onDisk, err := os.ReadFile(x.path(fmt.Sprint("f", n))); err != nil || !bytes.Equal(onDisk, data) {
				t.Errorf("%d bytes in %d parts: %v, other data", n, 1+len(it.More), err)
			}
		}
	}
	if parts := shorten([][]byte{make([]byte, 4), make([]byte, 4), make([]byte, 4)}, 8); len(parts) != 2 || length(parts) != 8 {
		t.Errorf("%d bytes in %d parts", length(parts), len(parts))
	}
	for name, p := range map[string]oncrpc.Payload{
		"count":         {Stream: writeArgs(root, 0, 5, nfsv3.UNSTABLE, []byte("abc"))},
		"stable":        {Stream: writeArgs(root, 0, 3, 3, []byte("abc"))},
		"item too long": {Stream: writeArgs(root, 0, 3, 0, []byte("abc"))[:len(root)+24+4], Items: []oncrpc.Item{{Pos: len(root) + 24, Data: make([]byte, 9)}}},
	} {
		if _, err := c.raw(Program, Version, 7, x.xids.Add(1), p); !errors.Is(err, errGarbage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An item that is no argument's has the call refused before it does anything; the
// copy of a call that was carried out gets its reply all the same.
func TestStrayItems(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	mkdir := xdr.AppendString(xdr.AppendOpaque(nil, root), "dir")
	for range 6 {
		mkdir = xdr.AppendUint32(mkdir, 0)
	}
	stray := oncrpc.Item{Pos: 8, Data: []byte("stray")}
	for name, call := range map[string]struct {
		program, version, proc uint32
		stream                 []byte
	}{
		"MKDIR":   {Program, Version, 9, mkdir},
		"GETATTR": {Program, Version, 1, xdr.AppendOpaque(nil, f)},
		"WRITE":   {Program, Version, 7, writeArgs(f, 0, 3, nfsv3.UNSTABLE, []byte("abc"))},
		"MNT":     {MountProgram, 3, 1, xdr.AppendString(nil, "/export")},
		"UMNTALL": {MountProgram, 3, 4, make([]byte, 8)},
	} {
		p := oncrpc.Payload{Stream: call.stream, Items: []oncrpc.Item{stray}}
		if _, err := c.raw(call.program, call.version, call.proc, x.xids.Add(1), p); !errors.Is(err, errGarbage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(x.path("dir")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	if data, err := os.ReadFile(x.path("f")); err != nil || len(data) > 0 {
		t.Errorf("%q was written: %v", data, err)
	}
	xid := x.xids.Add(1)
	stream := xdr.AppendString(xdr.AppendOpaque(nil, root), "l")
	for range 6 {
		stream = xdr.AppendUint32(stream, 0)
	}
	stream = xdr.AppendUint32(stream, 5)
	for range 2 {
		call := &oncrpc.Call{XID: xid, Program: Program, Version: Version, Procedure: 10, Cred: c.cred, Peer: c.peer, Args: oncrpc.Payload{
			Stream: stream, Items: []oncrpc.Item{{Pos: len(stream), Data: []byte("there")}},
		}}
		if err := oncrpc.Serve(t.Context(), x, call, &oncrpc.Reply{Mem: x.mem}); err != nil {
			t.Error(err)
		}
	}
}

// A symbolic link's path may come as an item, too.
func TestSymlinkFromItem(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	stream := xdr.AppendString(xdr.AppendOpaque(nil, root), "l")
	for range 6 { // no attributes
		stream = xdr.AppendUint32(stream, 0)
	}
	stream = xdr.AppendUint32(stream, 5)
	out, err := c.raw(Program, Version, 10, x.xids.Add(1), oncrpc.Payload{
		Stream: stream, Items: []oncrpc.Item{{Pos: len(stream), Data: []byte("there")}},
	})
	must(t, err)
	if status, err := checkResults(10, out); status != nfsv3.NFS3_OK || err != nil {
		t.Fatal(status, err)
	}
	if target, err := os.Readlink(x.path("l")); err != nil || target != "there" {
		t.Errorf("%q, %v", target, err)
	}
}

// cuttingMemory truncates a file before data is read into its memory, and extends it again when
// there was none.
type cuttingMemory struct {
	t    *testing.T
	path string
	fixedBuffer
}

func (m *cuttingMemory) Alloc(context.Context, int) (oncrpc.Buffer, error) {
	must(m.t, os.Truncate(m.path, 0))
	return m, nil
}

func (m *cuttingMemory) Release() { must(m.t, os.Truncate(m.path, int64(len(m.fixedBuffer)))) }

// A READ that gets nothing has met the end of the file, whatever the file has become since.
func TestReadOfATruncatedFile(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	data := make([]byte, 4096)
	c.write(f, 0, data, nfsv3.UNSTABLE)
	for range 2 { // the second READ gets the attributes first
		p := prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(f), Count: uint32(len(data))})
		p.reply.Mem = &cuttingMemory{t, x.path("f"), data}
		p.do(t)
		res, ok := decoded(c, bytes.NewReader(p.reply.Stream), nfsv3.ReadRead3res).(*nfsv3.Read3res_NFS3_OK)
		if !ok || res.Resok.Count != 0 || !res.Resok.Eof || attrOf(res.Resok.FileAttributes).Size != uint64(len(data)) {
			t.Errorf("%+v", res)
		}
		c.x.restart()
	}
}

// A directory may be writable and not readable. Then its names reach the disk all the same.
func TestUnreadableDirectory(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	x.volatile = false
	c := x.me()
	d := c.mkdir(c.root(), "d")
	c.mustSet(d, withMode(0o300))
	c.want(8, argsFor(8, d), nfsv3.NFS3_OK)
	c.want(12, argsFor(12, d), nfsv3.NFS3_OK)
	c.want(9, argsFor(9, d), nfsv3.NFS3_OK)
	c.want(13, argsFor(13, d), nfsv3.NFS3_OK)
	must(t, os.Chmod(x.path("d"), 0o700))
}

// A WRITE that was delayed until its client was gone writes nothing: the client may have sent it
// again on another connection, and have written other data since.
func TestWriteOfALostConnection(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	fd := o.write.Swap(-1)
	o.open.Lock() // the first WRITE waits for a descriptor
	ctx, lose := context.WithCancel(t.Context())
	var first sync.WaitGroup
	first.Go(func() {
		call := &oncrpc.Call{XID: 1, Program: Program, Version: Version, Procedure: 7, Cred: c.cred, Peer: c.peer}
		call.Args.Stream = writeArgs(f, 0, 3, nfsv3.UNSTABLE, []byte("old"))
		if err := x.ServeRPC(ctx, call, &oncrpc.Reply{Mem: x.mem}); err != nil {
			t.Error(err)
		}
	})
	for o.mods.inflight.Load() == 0 {
		runtime.Gosched()
	}
	lose()
	o.write.Store(fd)
	c.write(f, 0, []byte("old"), nfsv3.UNSTABLE)
	c.write(f, 0, []byte("new"), nfsv3.UNSTABLE)
	o.open.Unlock()
	first.Wait()
	if got, _ := c.read(f, 0, 3); string(got.Data) != "new" {
		t.Errorf("%q was written last", got.Data)
	}
}

package nfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

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

// The write verifier stays while data is safe, and changes with the server and
// with an error that may have lost data.
func TestWriteVerifier(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	commit := func() [8]byte {
		t.Helper()
		r := c.nfs(21, &nfsv3.Commit3args{File: fhOf(f)})
		res, ok := decoded(c, r, nfsv3.ReadCommit3res).(*nfsv3.Commit3res_NFS3_OK)
		if !ok {
			t.Fatal("COMMIT failed")
		}
		return res.Resok.Verf
	}
	a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	b, _ := c.write(f, 1, []byte("y"), nfsv3.FILE_SYNC)
	if a.Verf != b.Verf || a.Verf != commit() {
		t.Error("the verifier changed without a reason")
	}
	o, err := x.object(f)
	must(t, err)
	x.lost(o, nil, unix.EIO)
	o.release()
	if commit() == a.Verf {
		t.Error("the verifier is the same after an error")
	}
	x.restart()
	if commit() == a.Verf {
		t.Error("the verifier is the same after a restart")
	}
}

// A stable WRITE that the file system refuses, as the file would get too large for it, loses
// nothing. Otherwise each one would make all clients of the export write again, and others of the
// file would fail with it.
func TestTooLargeWritesKeepTheVerifier(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	began := o.syncs.now()
	for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.DATA_SYNC, nfsv3.FILE_SYNC} {
		// Some file systems take even this.
		if _, status := c.write(f, 1<<63-2, []byte("x"), how); status != nfsv3.NFS3ERR_FBIG && status != nfsv3.NFS3_OK {
			t.Errorf("%v: %v", how, nfsv3.Nfsstat3_name[status])
		}
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf != was.Verf {
		t.Error("the verifier changed")
	}
	if err := o.syncs.since(began); err != nil {
		t.Errorf("a stable WRITE of the file at the same time: %v", err)
	}
}

// EFBIG at a position that the file may have is an error of the sync: others must learn of it.
func TestTooLargeAtSync(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	fd := int(o.write.Load())
	if err := x.lostBy(o, nil, fd, 1<<63-1, unix.EFBIG); err != nil {
		t.Errorf("beyond what a file may have: %v", err)
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf != was.Verf || x.lacksSpace() {
		t.Error("beyond what a file may have, the verifier changed")
	}
	if err := x.lostBy(o, nil, fd, 4096, unix.EFBIG); !errors.Is(err, unix.EFBIG) {
		t.Errorf("others do not learn of the error: %v", err)
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf == was.Verf || !x.lacksSpace() {
		t.Error("the verifier stayed")
	}
}

// On a mount of another NFS server, the error of a WRITE may be that of data that was written earlier.
func TestErrorsOfEarlierData(t *testing.T) {
	for _, onNFS := range []bool{false, true} {
		x := serve(t, options{})
		x.onNFS, x.maxFile = onNFS, 1<<63-1
		c := x.me()
		f := c.mkfile(c.root(), "f")
		for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.FILE_SYNC} {
			x.full.Store(uint64(x.epoch.Load()) + 1) // the file was written and synced in two steps
			was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
			_, status := c.write(f, 1<<63-2, []byte("x"), how)
			now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
			// Some file systems take even this.
			if changed := now.Verf != was.Verf; changed != (onNFS && status != nfsv3.NFS3_OK) {
				t.Errorf("on NFS %v, %v: %v, the verifier changed: %v", onNFS, how, nfsv3.Nfsstat3_name[status], changed)
			}
		}
	}
}

// What was written UNSTABLE goes to the disk before the file is closed for
// others to be opened.
func TestDirtyFilesAreFlushed(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	if !o.dirty.Load() {
		t.Fatal("not dirty after an UNSTABLE write")
	}
	o.refs.Add(1)
	o.flushAndRelease()
	if o.dirty.Load() {
		t.Error("dirty after it was flushed")
	}
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	c.want(21, &nfsv3.Commit3args{File: fhOf(f), Offset: 5, Count: 1}, nfsv3.NFS3_OK)
	if o.dirty.Load() {
		t.Error("dirty after COMMIT")
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

// brokenFD gives the file a descriptor that fsync(2) refuses, as it would after an error of the
// disk.
func (x *export) brokenFD(h []byte) {
	x.t.Helper()
	o, err := x.object(h)
	must(x.t, err)
	defer o.release()
	var pipe [2]int
	must(x.t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	must(x.t, unix.Close(pipe[1]))
	o.read.Store(int32(pipe[0]))
	x.cache.files.Add(1)
	if fd := int(o.write.Load()); fd >= 0 {
		if o.write.Store(int32(pipe[0])); fd != o.path {
			o.closeFD(fd)
		}
	}
	x.volatile = false
}

// An fsync for attributes may be the one that gets the error of data. Then clients write again,
// because the next fsync succeeds.
func TestWriteVerifierAfterSetattr(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	c := x.me()
	f := c.mkfile(c.root(), "f")
	a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	x.brokenFD(f)
	if status, _ := c.setattr(f, withMode(0o600), noGuard()); status == nfsv3.NFS3_OK {
		t.Error("SETATTR: the error is hidden")
	}
	if before := binary.BigEndian.Uint64(a.Verf[:]); x.verifier.Load() == before {
		t.Error("the verifier is the same after an error")
	}
}

// While one sync of a file runs, calls that come wait for the next one, which is for all of
// them. An error of the one that runs may be of data that they have written: stable WRITEs get it,
// and COMMIT answers with the verifier that it has renewed.
func TestSyncsAreShared(t *testing.T) {
	for _, failed := range []error{nil, unix.EIO} {
		x := serve(t, options{})
		x.volatile = false
		c := x.me()
		f := c.mkfile(c.root(), "f")
		a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
		o, err := x.object(f)
		must(t, err)
		const calls = 20
		if !o.syncs.alone(&x.export.syncs) { // one that this test makes
			t.Fatal("a sync runs before any call")
		}
		first := o.syncs.begun
		writes := make(chan nfsv3.Nfsstat3, calls)
		for i := range calls {
			go func() {
				how := nfsv3.DATA_SYNC
				if i%2 == 0 {
					how = nfsv3.FILE_SYNC
				}
				_, status := c.write(f, uint64(i), []byte("y"), how)
				writes <- status
			}()
		}
		committed := make(chan nfsv3.Commit3res, 1)
		go func() {
			committed <- decoded(c, c.nfs(21, &nfsv3.Commit3args{File: fhOf(f)}), nfsv3.ReadCommit3res)
		}()
		o.gather(1 + calls + 1)
		if n := len(writes) + len(committed); n > 0 {
			t.Errorf("%d calls were answered before their data was on the disk", n)
		}
		if failed != nil {
			x.lost(o, nil, failed)
		}
		o.syncs.end(&x.export.syncs, failed)
		want := nfsv3.NFS3_OK
		if failed != nil {
			want = nfsv3.NFS3ERR_IO
		}
		for range calls {
			if status := <-writes; status != want {
				t.Errorf("after %v, a stable WRITE got %v, want %v", failed, status, want)
			}
		}
		if res, ok := (<-committed).(*nfsv3.Commit3res_NFS3_OK); !ok || (res.Resok.Verf == a.Verf) == (failed != nil) {
			t.Errorf("after %v, COMMIT answered %+v, with verifier %v before", failed, res, a.Verf)
		}
		if o.syncs.begun != first+1 || o.syncs.done != first+1 || o.syncs.full != first+1 || o.syncs.waiting != 0 {
			t.Errorf("%+v, want number %d for all calls", &o.syncs, first+1)
		}
		if _, status := c.write(f, 0, []byte("z"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK {
			t.Errorf("after %v, a later WRITE got %v", failed, status)
		}
		o.release()
	}
}

// A stable WRITE on a mount of another NFS server is to be sent again if another WRITE of the file got an
// error before the sync.
func TestErrorBeforeSync(t *testing.T) {
	x := serve(t, options{})
	x.volatile, x.onNFS = false, true
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	if !o.syncs.alone(&x.export.syncs) { // one that this test makes
		t.Fatal("a sync runs before any call")
	}
	got := make(chan nfsv3.Nfsstat3, 1)
	go func() {
		_, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC)
		got <- status
	}()
	o.gather(2)
	x.refused(o, nil, false, unix.ENOSPC)
	o.syncs.end(&x.export.syncs, nil)
	if status := <-got; status != nfsv3.NFS3ERR_JUKEBOX {
		t.Errorf("%v", nfsv3.Nfsstat3_name[status])
	}
	if _, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK {
		t.Errorf("again: %v", nfsv3.Nfsstat3_name[status])
	}
}

// gather waits until n calls are in sync.
func (o *object) gather(n int) {
	for {
		o.syncs.mu.Lock()
		waiting := o.syncs.waiting
		o.syncs.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// fill lets no more syncs run. The returned function lets them run again.
func (p *pace) fill() (empty func()) {
	for range cap(p.fast) {
		p.fast <- struct{}{}
	}
	for range cap(p.slow) {
		p.slow <- struct{}{}
	}
	return func() {
		for range cap(p.slow) {
			<-p.slow
		}
		for range cap(p.fast) {
			<-p.fast
		}
	}
}

// All calls that waited for a sync get its error.
func TestErrorOfASharedSync(t *testing.T) {
	x := serve(t, options{})
	x.volatile = false
	c := x.me()
	f := c.mkfile(c.root(), "f")
	a, _ := c.write(f, 0, []byte("x"), nfsv3.FILE_SYNC)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	empty := x.export.syncs.fill()
	begun := o.syncs.begun
	broken := make(chan error, 20)
	for range cap(broken) {
		go func() { broken <- o.sync(nil, -1, true) }()
	}
	o.gather(cap(broken))
	empty()
	for range cap(broken) {
		if err := <-broken; !errors.Is(err, unix.EBADF) {
			t.Errorf("%v, want the error of the one that was made", err)
		}
	}
	if o.syncs.begun != begun+1 {
		t.Errorf("%d syncs for calls that waited at the same time", o.syncs.begun-begun)
	}
	if b, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK || a.Verf == b.Verf {
		t.Errorf("%v, verifiers %x and %x", status, a.Verf, b.Verf)
	}
}

// When a disk takes long, more syncs run after a while, but only so many as may have threads.
func TestSyncsOnASlowDisk(t *testing.T) {
	p := newPace()
	p.fill()
	<-p.slow
	if p.enter() != p.slow {
		t.Error("none may run beside those that take long")
	}
	entered := make(chan (<-chan struct{}), 1)
	go func() { entered <- p.enter() }()
	select {
	case <-entered:
		t.Fatal("one runs beyond the limit")
	case <-time.After(3 * syncPatience):
	}
	<-p.fast
	if <-entered != p.fast {
		t.Error("it did not take the place of the one that ended")
	}
}

// CREATE that truncates a file brings that to the disk, as SETATTR does.
func TestCreateSyncsWhatItTruncates(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	x.brokenFD(f)
	if _, status := c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)}); status == nfsv3.NFS3_OK {
		t.Error("CREATE did not synchronize the file")
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

package connector

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Procedures of NFS version 3 (RFC 1813 §3.3).
const (
	procReadlink = 5
	procRead     = nfstest.ProcRead
	procWrite    = nfstest.ProcWrite
	procSymlink  = 10
	procReaddir  = 16
)

// export is a directory served by NFS version 3, and a client of it through a
// connector.
type export struct {
	*rig
	nfstest.Files
	dir     string
	handler oncrpc.Handler
	cred    oncrpc.Auth
	client  *rpctcp.Client
	root    []byte // handle
}

func newExport(t testing.TB, p rdmacm.Provider) *export {
	t.Helper()
	return newExportWith(t, p, Config{})
}

func newExportWith(t testing.TB, p rdmacm.Provider, cfg Config) *export {
	t.Helper()
	return newExportOn(newTargetless(t, p), cfg)
}

// newExportOn gives a rig its target and its connector.
func newExportOn(r *rig, cfg Config) *export {
	t := r.t
	t.Helper()
	e := &export{dir: t.TempDir(), rig: r}
	server, err := nfs.New(nfs.Config{Export: nfs.Export{Path: e.dir}, AsyncMetadata: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	r.listen(server, &cfg)
	r.connect(cfg)
	e.handler, e.cred = server, nfstest.User(uint32(os.Getuid()), uint32(os.Getgid()))
	e.client = e.dial(rpctcp.ClientConfig{MaxCalls: 64, Cred: e.cred})
	e.Files = nfstest.Files{Carrier: nfstest.TCP{Client: e.client, Auth: e.cred}}
	if e.root, err = e.Mount(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	return e
}

// call makes a call that must succeed, and gives what comes after its status.
func (e *export) call(proc uint32, args []byte) *xdr.Decoder {
	e.t.Helper()
	d, err := e.Do(e.t.Context(), proc, &nfstest.Call{Args: args})
	if err != nil {
		e.t.Fatal(err)
	}
	return &d
}

func (e *export) create(name string) []byte {
	e.t.Helper()
	h, err := e.Create(e.t.Context(), e.root, name)
	if err != nil {
		e.t.Fatal(err)
	}
	return h
}

func (e *export) write(handle []byte, offset uint64, data []byte) error {
	return e.Write(e.t.Context(), handle, offset, data, nfstest.Unstable)
}

func (e *export) read(handle []byte, offset uint64, n int) ([]byte, error) {
	got, err := e.Read(e.t.Context(), handle, offset, n)
	return got.Data, err
}

// stats are the connector's RDMA connection's counters.
func (e *export) stats() rpcrdma.Stats {
	e.t.Helper()
	list := e.outgoing()
	if len(list) != 1 {
		e.t.Fatalf("%d connections", len(list))
	}
	return list[0].Stats
}

// TestFile writes and reads files of sizes around those that matter.
func TestFile(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExport(t, p)
		for _, n := range []int{1, 3, 900, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 1<<20 - 1, 1 << 20} {
			name := fmt.Sprint("file", n)
			data := make([]byte, n)
			echo.Fill(data)
			h := e.create(name)
			if err := e.write(h, 0, data); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if got, err := os.ReadFile(filepath.Join(e.dir, name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes written: %d, %v", n, len(got), err)
			}
			for _, ask := range []int{n, n / 2, 1 << 20} {
				if got, err := e.read(h, 0, ask); err != nil || !bytes.Equal(got, data[:min(n, ask)]) {
					t.Errorf("%d of %d bytes read: %d, %v", ask, n, len(got), err)
				}
			}
		}
	})
}

// TestNoCopies: data of READ and WRITE goes between socket and registered
// memory without a copy, but for what of a WRITE came with its header.
func TestNoCopies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExport(t, p)
		h := e.create("file")
		data := make([]byte, 1<<20)
		echo.Fill(data)
		before := e.stats()
		if err := e.write(h, 0, data); err != nil {
			t.Fatal(err)
		}
		if got, err := e.read(h, 0, len(data)); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		s := e.stats()
		if s.PullupBytes != before.PullupBytes || s.FixupBytes != before.FixupBytes {
			t.Errorf("copied %d to be sent, %d after they came", s.PullupBytes-before.PullupBytes, s.FixupBytes-before.FixupBytes)
		}
		if s.ReadChunks != before.ReadChunks+1 || s.WriteChunks != before.WriteChunks+1 || s.LongCalls != 0 || s.PlacedBytes < 1<<20 {
			t.Errorf("not in chunks: %+v", s)
		}
	})
}

// TestLinks: targets are DDP-eligible, and come back whole whichever way.
func TestLinks(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExport(t, p)
		for _, n := range []int{1, 100, 1023, 1024, 4000} {
			target := bytes.Repeat([]byte{'x'}, n)
			args := nfstest.NameArgs(e.root, fmt.Sprint("link", n))
			d := e.call(procSymlink, xdr.AppendOpaque(append(args, make([]byte, 24)...), target))
			if !d.Bool() {
				t.Fatal("no handle")
			}
			d = e.call(procReadlink, xdr.AppendOpaque(nil, d.Opaque(64)))
			nfstest.SkipAttributes(d)
			if got := d.Opaque(5000); !bytes.Equal(got, target) || d.Err() != nil {
				t.Errorf("target of %d bytes: %d, %v", n, len(got), d.Err())
			}
		}
	})
}

// TestDirectory reads a directory that needs replies in reply chunks.
func TestDirectory(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExport(t, p)
		want := make(map[string]bool)
		for i := range 3000 {
			name := fmt.Sprintf("a-rather-long-name-%06d", i)
			want[name] = true
			if err := os.WriteFile(filepath.Join(e.dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cookie, verf := uint64(0), uint64(0)
		for eof := false; !eof; {
			args := xdr.AppendUint64(xdr.AppendUint64(xdr.AppendOpaque(nil, e.root), cookie), verf)
			d := e.call(procReaddir, xdr.AppendUint32(args, 64<<10))
			nfstest.SkipAttributes(d)
			verf = d.Uint64()
			for d.Bool() {
				d.Uint64()
				delete(want, string(d.Opaque(255)))
				cookie = d.Uint64()
			}
			if eof = d.Bool(); d.Err() != nil {
				t.Fatal(d.Err())
			}
		}
		if len(want) != 0 {
			t.Errorf("%d names are missing", len(want))
		}
		if s := e.stats(); s.ReplyChunks < 2 || s.PlacedBytes < 64<<10 {
			t.Errorf("without reply chunks: %+v", s)
		}
	})
}

// TestManyReads has 64 READs of 1 MiB in flight on one connection.
func TestManyReads(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExport(t, p)
		h := e.create("file")
		data := make([]byte, 1<<20)
		echo.Fill(data)
		if err := e.write(h, 0, data); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				if got, err := e.read(h, 0, len(data)); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		wg.Wait()
	})
}

// TestFragments: a WRITE whose data, length word and roundup lie across
// fragments of every size arrives as it is.
func TestFragments(t *testing.T) {
	e := newExport(t, newLoopback(t))
	h := e.create("file")
	data := make([]byte, 5001)
	echo.Fill(data)
	args := xdr.AppendFixed(nfstest.WriteArgs(h, 0, len(data), nfstest.Unstable), data)
	nc, records := e.raw()
	for _, size := range []int{1, 3, 100, 1000, 1024, 4096, 5000} {
		msg := oncrpc.AppendCall(nil, &oncrpc.Call{
			XID: uint32(size), Program: nfs.Program, Version: nfs.Version, Procedure: procWrite,
			Cred: e.cred,
		})
		msg = append(msg, args...)
		if size == 1 {
			size = len(msg)/4000 + 1 // fragments are counted
		}
		var b []byte
		for len(msg) > 0 {
			n := min(size, len(msg))
			b = append(oncrpc.AppendRecordMark(b, n, n == len(msg)), msg[:n]...)
			msg = msg[n:]
		}
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		reply, err := records.Read(nil)
		if err != nil || len(reply) < oncrpc.AcceptedReplySize+4 || !bytes.Equal(reply[20:28], make([]byte, 8)) {
			t.Fatalf("fragments of %d bytes: %x, %v", size, reply, err)
		}
		if got, err := os.ReadFile(filepath.Join(e.dir, "file")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("fragments of %d bytes: %d bytes, %v", size, len(got), err)
		}
		if err := os.Truncate(filepath.Join(e.dir, "file"), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStatus: an error of the target's service is passed on, with the verifier
// and whatever else its reply has.
func TestStatus(t *testing.T) {
	e := newExport(t, newLoopback(t))
	if _, err := e.Lookup(t.Context(), e.root, "nothing"); !errors.Is(err, nfstest.StatusError(2)) {
		t.Errorf("found: %v", err)
	}
	_, err := e.client.Call(t.Context(), nfs.Program, 3, procRead, []byte{0, 0, 0, 1}, nil)
	if a, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || a.Stat != oncrpc.GarbageArgs {
		t.Errorf("arguments cut short: %v", err)
	}
	nc, records := e.raw()
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 9, Program: nfs.Program, Version: 3})
	msg[11] = 3 // RPC version
	if _, err := nc.Write(frame(msg)); err != nil {
		t.Fatal(err)
	}
	if _, err := records.Next(); err != nil {
		t.Fatal(err)
	}
	reply, err := records.Read(nil)
	if want := oncrpc.AppendDenied(nil, 9, &oncrpc.DeniedError{Stat: oncrpc.RPCMismatch, Low: 2, High: 2}); err != nil || !bytes.Equal(reply, want) {
		t.Errorf("another RPC version: %x, %v", reply, err)
	}
	nc.Close()
	if _, err := records.Next(); errors.Is(err, io.EOF) {
		t.Error("a reply too many")
	}
}

package forward

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// nfsUpstream is an NFSv3 server on TCP over a new directory.
func nfsUpstream(t testing.TB) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := nfs.New(nfs.Config{Export: nfs.Export{Path: dir}, StateDir: t.TempDir(), AsyncMetadata: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return nfstest.ServeTCP(t, s), dir
}

// nfsClient makes NFSv3 calls, as the user who runs the test.
type nfsClient struct {
	nfstest.Files
	t    testing.TB
	root []byte
}

func newNFSClient(t testing.TB, c *rpcrdma.Client) *nfsClient {
	t.Helper()
	n := &nfsClient{Files: nfstest.FilesOver(c, uint32(os.Getuid()), uint32(os.Getgid())), t: t}
	var err error
	if n.root, err = n.Mount(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *nfsClient) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Error(err)
	}
}

func (n *nfsClient) lookup(name string) []byte {
	n.t.Helper()
	h, err := n.Lookup(n.t.Context(), n.root, name)
	n.must(err)
	return h
}

// read reads up to count bytes, which come placed or not.
func (n *nfsClient) read(h []byte, off uint64, count int) (data []byte, placed bool) {
	n.t.Helper()
	got, err := n.Read(n.t.Context(), h, off, count)
	n.must(err)
	return got.Data, got.Placed
}

// write writes data through a read chunk when it is long enough for one.
func (n *nfsClient) write(h []byte, off uint64, data []byte) {
	n.t.Helper()
	n.must(n.Write(n.t.Context(), h, off, data, nfstest.Unstable))
}

func (n *nfsClient) create(name string) []byte {
	n.t.Helper()
	h, err := n.Create(n.t.Context(), n.root, name)
	n.must(err)
	return h
}

func random(n int) []byte {
	b := make([]byte, n)
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// TestNFS3 has files of many sizes written and read through a forwarder, and
// looks at them in the upstream's directory.
func TestNFS3(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, dir := nfsUpstream(t)
		r := newRig(t, p, address)
		n := newNFSClient(t, r.dial())
		for _, size := range []int{0, 1, 3, 100, 1023, 4095, 4096, 4097, 20001, 65537, 1 << 20} {
			name := fmt.Sprintf("file%d", size)
			data := random(size)
			h := n.create(name)
			n.write(h, 0, data)
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes written: %d there, %v", size, len(got), err)
			}
			got, placed := n.read(n.lookup(name), 0, max(size, 1))
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes written: %d read", size, len(got))
			}
			if placed != (size > 4000) {
				t.Errorf("%d bytes read: placed %v", size, placed)
			}
		}
		if s := r.Stats(); s.Calls != s.Replies || s.Refused+s.BadReplies+s.Strays+s.Unpooled != 0 || s.Placed != 10 || s.PlacedBytes == 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestLongReply: a directory's listing travels in the reply chunk.
func TestLongReply(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, dir := nfsUpstream(t)
		for i := range 700 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("a file with a long name %d", i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n := newNFSClient(t, newRig(t, p, address).dial())
		const size = 128 << 10
		args := xdr.AppendUint64(xdr.AppendUint64(xdr.AppendOpaque(nil, n.root), 0), 0)
		list, err := n.Call(t.Context(), &nfstest.Call{
			Program: nfs.Program, Version: nfs.Version, Procedure: 16, Args: xdr.AppendUint32(args, size), MaxReply: size,
		})
		if got := bytes.Count(list, []byte("a file with a long name")); err != nil || got != 700 {
			t.Errorf("%d of 700 names in %d bytes, %v", got, len(list), err)
		}
	})
}

// TestManyInFlight: 64 calls at once find each its own reply.
func TestManyInFlight(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, dir := nfsUpstream(t)
		data := random(1 << 20)
		if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		n := newNFSClient(t, newRig(t, p, address).dial())
		h := n.lookup("f")
		var all sync.WaitGroup
		for i := range 64 {
			all.Go(func() {
				for j := range 4 {
					off, size := i*j*1000, 1+i*511
					if got, _ := n.read(h, uint64(off), size); !bytes.Equal(got, data[off:off+size]) {
						t.Errorf("%d bytes at %d: %d wrong ones", size, off, len(got))
					}
				}
			})
		}
		all.Wait()
	})
}

// TestClientsHaveTheirOwn: each client's connection has one upstream connection,
// which ends with it.
func TestClientsHaveTheirOwn(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, _ := nfsUpstream(t)
		r := newRig(t, p, address)
		a, b := r.dial(), r.dial()
		newNFSClient(t, a)
		newNFSClient(t, b)
		if n := r.Stats().Connections; n != 2 {
			t.Errorf("%d upstream connections", n)
		}
		a.Close()
		r.down()
		if s := r.Stats(); s.Connections != 1 || s.Lost != 0 {
			t.Errorf("after one ended: %+v", s)
		}
		if err := b.Call(context.Background(), &rpcrdma.Call{Program: nfs.Program, Version: 3}); err != nil {
			t.Error(err)
		}
	})
}

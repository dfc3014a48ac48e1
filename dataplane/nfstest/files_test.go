package nfstest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFileThereAndBack(t *testing.T) {
	dir := t.TempDir()
	srv, err := nfs.New(nfs.Config{Export: nfs.Export{Path: dir}, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	p := refereetest.Around(t, loopback.New(loopback.Config{}))
	d := dataplane.New(dataplane.Config{})
	defer d.Shutdown(t.Context())
	listener, err := d.PrepareListener(t.Context(), dataplane.ListenerConfig{Name: "nfs", Provider: p, Address: "127.0.0.1:0", Handler: srv})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	d.Start()
	rpc, err := rpcrdma.Dial(t.Context(), p, listener.Info().Address.String(), rpcrdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer rpc.Close()
	c := FilesOver(rpc, uint32(os.Getuid()), uint32(os.Getgid()))
	root, err := c.Mount(t.Context(), "/export")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 3, 100, 4096, 70001, 1 << 20} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(i*7 + size)
		}
		h, err := c.Create(t.Context(), root, "file")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), h, 0, want, FileSync); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err := c.Commit(t.Context(), h); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes on disk, %d written: %v", len(got), size, err)
		}
		got, err := c.Read(t.Context(), h, 0, size)
		if err != nil || !got.EOF || !bytes.Equal(got.Data, want) || got.Placed != (size >= 4096) {
			t.Errorf("%d of %d bytes read, end %t, placed %t: %v", len(got.Data), size, got.EOF, got.Placed, err)
		}
		if err := c.Remove(t.Context(), root, "file"); err != nil {
			t.Error(err)
		}
		if _, err := c.Read(t.Context(), h, 0, 0); !errors.Is(err, StatusError(70)) {
			t.Errorf("reading what was removed: %v", err) // NFS3ERR_STALE
		}
	}
	if _, err := c.Mount(t.Context(), "/elsewhere"); !errors.Is(err, StatusError(2)) {
		t.Errorf("mounting what is not exported: %v", err) // MNT3ERR_NOENT
	}
}

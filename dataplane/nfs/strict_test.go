package nfs_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// strictly runs a test with a client that takes the server at its word, over
// RDMA and over TCP.
func strictly(t *testing.T, f func(t *testing.T, dir string, c *nfstest.Client3)) {
	cred := nfstest.User(uint32(os.Getuid()), uint32(os.Getgid()))
	serve := func(t *testing.T) (dir string, s *nfs.Server) {
		dir = t.TempDir()
		s, err := nfs.New(nfs.Config{Export: nfs.Export{Path: dir}, StateDir: t.TempDir(), AsyncMetadata: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return dir, s
	}
	t.Run("RDMA", func(t *testing.T) {
		dir, s := serve(t)
		p := refereetest.Around(t, loopback.New(loopback.Config{}))
		d := dataplane.New(dataplane.Config{})
		listener, err := d.PrepareListener(t.Context(), dataplane.ListenerConfig{Name: "nfs", Provider: p, Address: "127.0.0.1:0", Handler: s})
		if err != nil {
			t.Fatal(err)
		}
		listener.Enter()
		d.Start()
		defer d.Shutdown(t.Context())
		client, err := rpcrdma.Dial(t.Context(), p, listener.Info().Address.String(), rpcrdma.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		f(t, dir, &nfstest.Client3{T: t, Carrier: nfstest.RDMA{Client: client, Auth: cred}})
	})
	t.Run("TCP", func(t *testing.T) {
		dir, s := serve(t)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := rpctcp.NewServer(rpctcp.Config{Handler: s})
		done := make(chan error)
		go func() { done <- server.Serve(l) }()
		defer func() {
			server.Close()
			<-done
		}()
		client, err := rpctcp.Dial(t.Context(), l.Addr().String(), rpctcp.ClientConfig{Cred: cred})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		f(t, dir, &nfstest.Client3{T: t, Carrier: nfstest.TCP{Client: client, Auth: cred}})
	})
}

// TestStrictData: what FSINFO says of READ and WRITE holds to the byte.
func TestStrictData(t *testing.T) {
	strictly(t, func(t *testing.T, dir string, c *nfstest.Client3) {
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		c.Mount("/")
		if info := c.Info(); info.Rtmax != 1<<20 || info.Wtmax != 1<<20 {
			t.Errorf("%+v", info)
		}
		c.MaxData(c.Lookup("file"))
	})
}

// TestStrictListings: the bounds of READDIR and READDIRPLUS are kept to the
// byte, and made use of.
func TestStrictListings(t *testing.T) {
	strictly(t, func(t *testing.T, dir string, c *nfstest.Client3) {
		for i := range 20 {
			name := fmt.Sprint(i, strings.Repeat("n", i*i/3))
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.Mount("/")
		c.Listings()
	})
}

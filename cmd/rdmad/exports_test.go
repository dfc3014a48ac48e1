package main

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Statuses of MOUNT and NFS.
const (
	errNoEnt   = nfstest.StatusError(2)
	errIO      = nfstest.StatusError(5)
	errAccess  = nfstest.StatusError(13)
	errROFS    = nfstest.StatusError(30)
	errDQuot   = nfstest.StatusError(69)
	errStale   = nfstest.StatusError(70)
	errJukebox = nfstest.StatusError(10008)
)

// relay forwards TCP connections to an address, from another local address. It returns its
// own address.
func relay(t *testing.T, from, to string) string {
	t.Helper()
	l := have(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
	return l.Addr().String()
}

// nfsClient is an NFS client over RDMA, whose address is from.
func (p *patient) nfsClient(provider rdmacm.Provider, from string, uid uint32) nfstest.Files {
	p.t.Helper()
	to := p.manager.Listeners.List()[0].Live.Address.String()
	if from != "127.0.0.1" {
		to = relay(p.t, from, to)
	}
	rpc := have(rpcrdma.Dial(p.t.Context(), provider, to, rpcrdma.DialConfig{}))(p.t)
	p.t.Cleanup(func() { rpc.Close() })
	return nfstest.FilesOver(rpc, uid, uid)
}

func (p *patient) want(what string, got, want error) {
	p.t.Helper()
	if got != want && (want == nil || !errors.Is(got, want)) { //nolint:errorlint // nil is compared
		p.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// Clients of two addresses mount the same exports of one listener over RDMA, and get other
// rights, also with the same handles.
func TestExportOptionsByAddress(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "home", "archive/2026"} {
		makeDirectory(t, filepath.Join(dir, name))
		must(t, os.Chmod(filepath.Join(dir, name), 0o777))
	}
	provider := newProvider(t)
	p := admit(t, dir, `
services:
  - name: data
    nfs:
      exports:
        - {path: DIR/home}
        - path: DIR/archive
          squash: all_squash
          anonuid: 4000
          anongid: 4001
          clients:
            - {networks: [127.0.0.0/8], read_only: on}
            - {networks: [127.0.0.2], squash: root_squash, anonuid: 5000}
            - {networks: [192.0.2.0/24]}
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: data}]
`)
	p.must(os.Chmod(filepath.Join(dir, "archive"), 0o777))
	p.expect("data:"+filepath.Join(dir, "home"), conditions.ExportServed)
	p.expect("data:"+filepath.Join(dir, "archive"), conditions.ExportServed)
	ctx := t.Context()
	one, two := p.nfsClient(provider, "127.0.0.1", 0), p.nfsClient(provider, "127.0.0.2", 0)
	for _, c := range []nfstest.Files{one, two} {
		h, err := c.Mount(ctx, filepath.Join(dir, "home"))
		p.want("mount of home", err, nil)
		_, err = c.Create(ctx, h, "file")
		p.want("create in home", err, nil)
		_, err = c.Mount(ctx, "/export")
		p.want("mount of what is not exported", err, errAccess)
	}
	archive, err := one.Mount(ctx, filepath.Join(dir, "archive"))
	p.want("mount of archive", err, nil)
	below, err := two.Mount(ctx, filepath.Join(dir, "archive/2026"))
	p.want("mount below archive", err, nil)
	for _, h := range [][]byte{archive, below} {
		_, err = one.Create(ctx, h, "file")
		p.want("create in archive by 127.0.0.1", err, errROFS)
		_, err = two.Create(ctx, h, "file")
		p.want("create in archive by 127.0.0.2", err, nil)
	}
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		p.must(unix.Stat(filepath.Join(dir, "archive/file"), &st))
		if st.Uid != 5000 || st.Gid != 4001 {
			t.Errorf("the file of squashed root is of %d:%d", st.Uid, st.Gid)
		}
	}
}

// Clients that may not use an export can't mount it, and can't use its handles.
func TestExportWithoutAccess(t *testing.T) {
	dir := t.TempDir()
	makeDirectory(t, filepath.Join(dir, "one"))
	provider := newProvider(t)
	p := admit(t, dir, `
services: [{name: data, nfs: {path: DIR/one, clients: [{networks: [127.0.0.1]}]}}]
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: data}]
`)
	one, two := p.nfsClient(provider, "127.0.0.1", 0), p.nfsClient(provider, "127.0.0.2", 0)
	h, err := one.Mount(t.Context(), "/export")
	p.want("mount by 127.0.0.1", err, nil)
	_, err = two.Mount(t.Context(), "/export")
	p.want("mount by 127.0.0.2", err, errAccess)
	p.want("commit by 127.0.0.2", two.Commit(t.Context(), h), errStale)
	_, err = one.Create(t.Context(), h, "file")
	p.want("create by 127.0.0.1", err, nil)
}

// A file system that rdmad waits for at the start, and that is unmounted under it: the
// condition says so, clients wait, and all is well by itself when it is back.
func TestPrivilegedMountpointCondition(t *testing.T) {
	dir := t.TempDir()
	disk, store := filepath.Join(dir, "disk"), filepath.Join(dir, "store")
	makeDirectory(t, disk)
	makeDirectory(t, store)
	provider := newProvider(t)
	p := admit(t, dir, `
services: [{name: disk, nfs: {path: DIR/disk, require_mountpoint: on}}]
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: disk}]
`)
	p.must(unix.Mount("none", store, "tmpfs", 0, ""))
	defer func() { p.must(unix.Unmount(store, unix.MNT_DETACH)) }()
	c, ctx := p.nfsClient(provider, "127.0.0.1", 0), t.Context()
	p.expect("disk", conditions.ExportNotMounted)
	_, err := c.Mount(ctx, "/export")
	p.want("mount before the file system is there", err, errNoEnt)
	p.must(unix.Mount(store, disk, "", unix.MS_BIND, ""))
	p.expect("disk", conditions.ExportServed)
	root, err := c.Mount(ctx, "/export")
	p.want("mount", err, nil)
	f, err := c.Create(ctx, root, "file")
	p.want("create", err, nil)
	p.must(unix.Unmount(disk, unix.MNT_DETACH))
	p.expect("disk", conditions.ExportNotMounted)
	p.want("commit while it is away", c.Commit(ctx, f), errJukebox)
	p.must(unix.Mount(store, disk, "", unix.MS_BIND, ""))
	p.expect("disk", conditions.ExportServed)
	p.want("commit when it is back", c.Commit(ctx, f), nil)
	p.well()
	p.must(unix.Unmount(disk, unix.MNT_DETACH))
	p.must(unix.Mount("none", disk, "tmpfs", 0, ""))
	p.expect("disk", conditions.ExportReplaced)
	p.want("commit in another file system", c.Commit(ctx, f), errStale)
	p.must(unix.Unmount(disk, unix.MNT_DETACH))
}

// Only ./export is made, and only if the configuration has no services.
func TestDefaultExportIsMade(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, made := range map[string]bool{
		"": true,
		"services: [{name: export, nfs: {path: ./export}}]": false,
		"services: [{name: export, nfs: {path: other}}]":    false,
	} {
		c, err := config.Parse("f.yaml", []byte(text), config.Options{})
		if err == nil {
			err = makeDefaultExport(c, &spec.Changes{})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove("export"); (err == nil) != made {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Services that are added at runtime have the same exports, and the same checks.
func TestExportsAtRuntime(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	defer r.end()
	path := filepath.Join(dir, "late")
	add := func() error {
		e := spec.Export{Path: path, Clients: []spec.ExportClient{{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
		_, err := r.manager.Services.Add(t.Context(), spec.Service{Name: "late", NFS: &spec.NFS{Exports: []spec.Export{e}}})
		return err
	}
	if err := add(); err == nil {
		t.Error("a missing directory is exported")
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	makeDirectory(t, path)
	if err := add(); err != nil {
		t.Error(err)
	}
}

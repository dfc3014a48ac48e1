package main

import (
	"path/filepath"
	"testing"
)

// A client that writes over its quota gets NFS3ERR_DQUOT.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	makeDirectory(t, full)
	fs := have(mountHung(full))(t)
	defer func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("served", func(t *testing.T) { // all is closed before the file system
		p := admit(t, dir, `
services: [{name: full, nfs: {path: DIR/full}}]
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: full}]
`)
		c := p.nfsClient(newProvider(t), "127.0.0.1", 0)
		root, err := c.Mount(t.Context(), full)
		p.must(err)
		file, err := c.Create(t.Context(), root, hungFile)
		p.must(err)
		for stable := range uint32(3) { // UNSTABLE, DATA_SYNC, FILE_SYNC
			p.want("write over the quota", c.Write(t.Context(), file, 0, []byte("data"), stable), errDQuot)
		}
	})
}

// A file system that takes nothing of a WRITE, and gives no error, does not keep the call for ever.
func TestWriteOfNothing(t *testing.T) {
	dir := t.TempDir()
	odd := filepath.Join(dir, "odd")
	makeDirectory(t, odd)
	fs := have(mountHung(odd))(t)
	defer func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("served", func(t *testing.T) { // all is closed before the file system
		p := admit(t, dir, `
services: [{name: odd, nfs: {path: DIR/odd}}]
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: odd}]
`)
		p.must(fs.TakeNothing())
		c := p.nfsClient(newProvider(t), "127.0.0.1", 0)
		root, err := c.Mount(t.Context(), odd)
		p.must(err)
		file, err := c.Create(t.Context(), root, hungFile)
		p.must(err)
		for stable := range uint32(3) { // UNSTABLE, DATA_SYNC, FILE_SYNC
			p.want("write of nothing", c.Write(t.Context(), file, 0, []byte("data"), stable), errIO)
		}
	})
}

package nfs

import (
	"bytes"
	"os"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
)

// modes are the ways in which a server finds objects and acts.
var modes = []struct {
	name string
	opt  options
}{
	{"handles", options{}},
	{"names", options{byName: true}},
	{"inodes", options{byName: true, inodeIDs: true}},
}

func eachMode(t *testing.T, f func(t *testing.T, opt options)) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) { f(t, m.opt) })
	}
}

func TestWriteAndReadBack(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.as(0, 0)
		root := c.root()
		f := c.mkfile(root, "hello")
		data := bytes.Repeat([]byte("0123456789abcdef"), 5000)
		res, status := c.write(f, 3, data, nfsv3.UNSTABLE)
		if status != nfsv3.NFS3_OK || int(res.Count) != len(data) {
			t.Fatalf("write: %v, %+v", status, res)
		}
		got, status := c.read(f, 3, 100000)
		if status != nfsv3.NFS3_OK || !got.Eof || !bytes.Equal(got.Data, data) {
			t.Fatalf("read: %v, eof %v, %d bytes", status, got.Eof, len(got.Data))
		}
		onDisk, err := os.ReadFile(x.path("hello"))
		if err != nil || !bytes.Equal(onDisk[3:], data) {
			t.Fatalf("on disk: %v, %d bytes", err, len(onDisk))
		}
		x.restart()
		if _, status := c.getattr(f); status != nfsv3.NFS3_OK {
			t.Fatalf("handle after a restart: %v", status)
		}
		if err := os.Rename(x.path("hello"), x.path("moved")); err != nil {
			t.Fatal(err)
		}
		x.restart()
		if got, status := c.read(f, 3, 100000); status != nfsv3.NFS3_OK || !bytes.Equal(got.Data, data) {
			t.Fatalf("handle after rename and restart: %v", status)
		}
	})
}

package nfs

import (
	"io"
	"os"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

func (c *client) mkdir(dir []byte, name string) []byte {
	c.x.t.Helper()
	r := c.nfs(9, &nfsv3.Mkdir3args{Where: in(dir, name), Attributes: withMode(0o755)})
	res, ok := decoded(c, r, nfsv3.ReadMkdir3res).(*nfsv3.Mkdir3res_NFS3_OK)
	if !ok {
		c.x.t.Fatalf("MKDIR %s failed", name)
	}
	return handleOf(res.Resok.Obj)
}

func TestRemove(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	d := c.mkdir(root, "d")
	c.mkfile(d, "inner")
	c.want(12, &nfsv3.Remove3args{Object: in(root, "none")}, nfsv3.NFS3ERR_NOENT)
	c.want(12, &nfsv3.Remove3args{Object: in(f, "x")}, nfsv3.NFS3ERR_NOTDIR)
	c.want(12, &nfsv3.Remove3args{Object: in(root, "d")}, nfsv3.NFS3ERR_ISDIR)
	c.want(13, &nfsv3.Rmdir3args{Object: in(root, "f")}, nfsv3.NFS3ERR_NOTDIR)
	c.want(13, &nfsv3.Rmdir3args{Object: in(root, "d")}, nfsv3.NFS3ERR_NOTEMPTY)
	c.want(12, &nfsv3.Remove3args{Object: in(root, "f")}, nfsv3.NFS3_OK)
	c.want(1, &nfsv3.Getattr3args{Object: fhOf(f)}, nfsv3.NFS3ERR_STALE)
	c.want(12, &nfsv3.Remove3args{Object: in(d, "inner")}, nfsv3.NFS3_OK)
	c.want(13, &nfsv3.Rmdir3args{Object: in(root, "d")}, nfsv3.NFS3_OK)
	c.want(3, &nfsv3.Lookup3args{What: in(d, "x")}, nfsv3.NFS3ERR_STALE)
	c.want(8, &nfsv3.Create3args{Where: in(d, "x"), How: &nfsv3.Createhow3_EXCLUSIVE{}}, nfsv3.NFS3ERR_STALE)
}

// The handle of a directory that was removed on the server itself is stale. If LOOKUP said that a
// name is missing, clients would believe that of a new directory in its place, too.
func TestDirectoryRemovedByOthers(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		f := c.mkfile(root, "name")
		for name, call := range map[string]struct {
			proc uint32
			args func(d []byte) io.WriterTo
		}{
			"LOOKUP":      {3, func(d []byte) io.WriterTo { return argsFor(3, d) }},
			"CREATE":      {8, func(d []byte) io.WriterTo { return argsFor(8, d) }},
			"MKDIR":       {9, func(d []byte) io.WriterTo { return argsFor(9, d) }},
			"SYMLINK":     {10, func(d []byte) io.WriterTo { return argsFor(10, d) }},
			"MKNOD":       {11, func(d []byte) io.WriterTo { return argsFor(11, d) }},
			"REMOVE":      {12, func(d []byte) io.WriterTo { return argsFor(12, d) }},
			"RMDIR":       {13, func(d []byte) io.WriterTo { return argsFor(13, d) }},
			"RENAME from": {14, func(d []byte) io.WriterTo { return &nfsv3.Rename3args{From: in(d, "x"), To: in(root, "x")} }},
			"RENAME to":   {14, func(d []byte) io.WriterTo { return &nfsv3.Rename3args{From: in(root, "name"), To: in(d, "x")} }},
			"LINK":        {15, func(d []byte) io.WriterTo { return &nfsv3.Link3args{File: fhOf(f), Link: in(d, "x")} }},
			"READDIR":     {16, func(d []byte) io.WriterTo { return argsFor(16, d) }},
			"READDIRPLUS": {17, func(d []byte) io.WriterTo { return argsFor(17, d) }},
		} {
			d := c.mkdir(root, "d")
			c.want(16, argsFor(16, d), nfsv3.NFS3_OK)
			must(t, os.Remove(x.path("d")))
			must(t, os.Mkdir(x.path("d"), 0o755))
			if got := c.status(call.proc, call.args(d)); got != nfsv3.NFS3ERR_STALE {
				t.Errorf("%s: %v", name, nfsv3.Nfsstat3_name[got])
			}
			must(t, os.Remove(x.path("d")))
		}
		c.want(3, &nfsv3.Lookup3args{What: in(root, "none")}, nfsv3.NFS3ERR_NOENT)
	})
}

// The space of a removed file is free at once, though it was open in the
// server.
func TestRemoveClosesTheFile(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		f, g := c.mkfile(root, "f"), c.mkfile(root, "g")
		before := x.cache.files.Load()
		c.want(12, &nfsv3.Remove3args{Object: in(root, "f")}, nfsv3.NFS3_OK)
		if n := x.cache.files.Load(); n >= before {
			t.Errorf("%d files open after REMOVE, %d before", n, before)
		}
		c.mkfile(root, "h")
		before = x.cache.files.Load()
		c.want(14, &nfsv3.Rename3args{From: in(root, "h"), To: in(root, "g")}, nfsv3.NFS3_OK)
		if n := x.cache.files.Load(); n >= before {
			t.Errorf("%d files open after RENAME, %d before", n, before)
		}
		for _, h := range [][]byte{f, g} {
			c.want(1, &nfsv3.Getattr3args{Object: fhOf(h)}, nfsv3.NFS3ERR_STALE)
		}
	})
}

// A file that gets another name while it loses one is not gone.
func TestRemoveBesideLink(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		f := c.mkfile(c.root(), "f")
		var name posix.Name
		name.Set([]byte("f"))
		e := x.entry(x.top, &name)
		defer e.close()
		must(t, os.Link(x.path("f"), x.path("g")))
		must(t, os.Remove(x.path("f")))
		x.unlinked(x.top, &e, &name)
		c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
	})
}

func TestRename(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		a, b := c.mkdir(root, "a"), c.mkdir(root, "b")
		f := c.mkfile(a, "f")
		if _, status := c.write(f, 0, []byte("content"), nfsv3.UNSTABLE); status != nfsv3.NFS3_OK {
			t.Fatal(status)
		}
		c.want(14, &nfsv3.Rename3args{From: in(a, "f"), To: in(b, "g")}, nfsv3.NFS3_OK)
		if got := c.mustLookup(b, "g"); string(got) != string(f) {
			t.Error("the handle changed")
		}
		if data, err := os.ReadFile(x.path("b/g")); err != nil || string(data) != "content" {
			t.Errorf("%q, %v", data, err)
		}
		// A directory moves with all that is in it, known to the server or not.
		c.want(14, &nfsv3.Rename3args{From: in(root, "b"), To: in(a, "b2")}, nfsv3.NFS3_OK)
		x.restart()
		if got, status := c.read(f, 0, 100); status != nfsv3.NFS3_OK || string(got.Data) != "content" {
			t.Errorf("read after moves and restart: %v", status)
		}
		c.want(14, &nfsv3.Rename3args{From: in(root, "a"), To: in(b, "loop")}, nfsv3.NFS3ERR_INVAL)
		c.want(14, &nfsv3.Rename3args{From: in(root, "none"), To: in(root, "x")}, nfsv3.NFS3ERR_NOENT)
		c.want(14, &nfsv3.Rename3args{From: in(f, "x"), To: in(root, "x")}, nfsv3.NFS3ERR_NOTDIR)
		c.want(14, &nfsv3.Rename3args{From: in(root, "x"), To: in(f, "x")}, nfsv3.NFS3ERR_NOTDIR)
		c.mkfile(root, "file")
		c.want(14, &nfsv3.Rename3args{From: in(root, "file"), To: in(root, "a")}, nfsv3.NFS3ERR_ISDIR)
		c.want(14, &nfsv3.Rename3args{From: in(root, "a"), To: in(root, "file")}, nfsv3.NFS3ERR_NOTDIR)
		c.mkdir(root, "empty")
		c.want(14, &nfsv3.Rename3args{From: in(root, "empty"), To: in(root, "a")}, nfsv3.NFS3ERR_NOTEMPTY)
		c.want(14, &nfsv3.Rename3args{From: in(root, "file"), To: in(root, "file")}, nfsv3.NFS3_OK)
	})
}

// The wcc_data of RENAME are those of both directories.
func TestRenameWCC(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	a := c.mkdir(root, "a")
	c.mkfile(root, "f")
	was := [2]*nfsv3.Fattr3{c.mustAttr(root), c.mustAttr(a)}
	r := c.nfs(14, &nfsv3.Rename3args{From: in(root, "f"), To: in(a, "f")})
	res, ok := decoded(c, r, nfsv3.ReadRename3res).(*nfsv3.Rename3res_NFS3_OK)
	if !ok {
		t.Fatal("RENAME failed")
	}
	for i, wcc := range []nfsv3.WccData{res.Resok.FromdirWcc, res.Resok.TodirWcc} {
		pre, ok := wcc.Before.(*nfsv3.PreOpAttr_TRUE)
		if !ok || pre.Attributes.Ctime != was[i].Ctime || pre.Attributes.Mtime != was[i].Mtime || pre.Attributes.Size != was[i].Size {
			t.Errorf("directory %d before: %+v", i, wcc.Before)
		}
		if post := attrOf(wcc.After); post == nil || post.Fileid != was[i].Fileid {
			t.Errorf("directory %d after: %+v", i, post)
		}
	}
	r = c.nfs(14, &nfsv3.Rename3args{From: in(a, "f"), To: in(a, "g")})
	res = decoded(c, r, nfsv3.ReadRename3res).(*nfsv3.Rename3res_NFS3_OK)
	from, to := res.Resok.FromdirWcc, res.Resok.TodirWcc
	if *attrOf(from.After) != *attrOf(to.After) || attrOf(to.After).Fileid != was[1].Fileid {
		t.Errorf("within one directory: %+v, %+v", from, to)
	}
	if _, ok := to.Before.(*nfsv3.PreOpAttr_TRUE); !ok {
		t.Error("within one directory: no attributes from before")
	}
}

func TestLink(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		d := c.mkdir(root, "d")
		f := c.mkfile(root, "f")
		must(t, os.Symlink("/etc/passwd", x.path("s")))
		r := c.nfs(15, &nfsv3.Link3args{File: fhOf(f), Link: in(d, "g")})
		res, ok := decoded(c, r, nfsv3.ReadLink3res).(*nfsv3.Link3res_NFS3_OK)
		if !ok {
			t.Fatal("LINK failed")
		}
		if a := attrOf(res.Resok.FileAttributes); a == nil || a.Nlink != 2 {
			t.Errorf("attributes %+v", a)
		}
		if got := c.mustLookup(d, "g"); string(got) != string(f) {
			t.Error("another handle by the other name")
		}
		c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(d, "g")}, nfsv3.NFS3ERR_EXIST)
		c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(f, "g")}, nfsv3.NFS3ERR_NOTDIR)
		c.want(15, &nfsv3.Link3args{File: fhOf(d), Link: in(root, "d2")}, nfsv3.NFS3ERR_ISDIR)
		// The first name goes, the object stays.
		c.want(12, &nfsv3.Remove3args{Object: in(root, "f")}, nfsv3.NFS3_OK)
		x.restart()
		if a := c.mustAttr(f); a.Nlink != 1 {
			t.Errorf("links %d", a.Nlink)
		}
		// A name for a symbolic link is one for the link itself.
		s := c.mustLookup(root, "s")
		c.want(15, &nfsv3.Link3args{File: fhOf(s), Link: in(d, "s2")}, nfsv3.NFS3_OK)
		if target, err := os.Readlink(x.path("d/s2")); err != nil || target != "/etc/passwd" {
			t.Errorf("%q, %v", target, err)
		}
	})
}

// rdmad ends without a chance to close anything, and another one begins: what
// was answered holds, and handles are good.
func TestKilledAndStartedAgain(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		killed := x.server // never closed before the next one works
		c := x.me()
		root := c.root()
		d := c.mkdir(root, "d")
		f := c.mkfile(d, "f")
		old, _ := c.write(f, 0, []byte("acknowledged"), nfsv3.UNSTABLE)
		c.want(14, &nfsv3.Rename3args{From: in(d, "f"), To: in(root, "g")}, nfsv3.NFS3_OK)
		x.start()
		got, status := c.read(f, 0, 100)
		if status != nfsv3.NFS3_OK || string(got.Data) != "acknowledged" {
			t.Errorf("%v, %+v", status, got)
		}
		if h := c.mustLookup(root, "g"); string(h) != string(f) {
			t.Error("another handle")
		}
		if now, _ := c.write(f, 0, []byte("A"), nfsv3.UNSTABLE); now.Verf == old.Verf {
			t.Error("the write verifier is the same")
		}
		must(t, killed.Close())
	})
}

func TestReadOnly(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "name")
	d := c.mkdir(root, "dir")
	x.cfg.ReadOnly = true
	x.restart()
	for _, proc := range []uint32{2, 7, 21} {
		c.want(proc, argsFor(proc, f), nfsv3.NFS3ERR_ROFS)
	}
	for _, proc := range []uint32{8, 9, 10, 11, 12, 13, 14} {
		c.want(proc, argsFor(proc, root), nfsv3.NFS3ERR_ROFS)
	}
	c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(d, "x")}, nfsv3.NFS3ERR_ROFS)
	for _, proc := range []uint32{1, 4, 18, 19, 20} {
		c.want(proc, argsFor(proc, root), nfsv3.NFS3_OK)
	}
	c.want(6, argsFor(6, f), nfsv3.NFS3_OK)
	if got := c.access(f, 0x3f); got&(nfsv3.ACCESS3_MODIFY|nfsv3.ACCESS3_EXTEND) != 0 {
		t.Errorf("ACCESS %x", got)
	}
}

func (c *client) access(h []byte, want uint32) uint32 {
	c.x.t.Helper()
	r := c.nfs(4, &nfsv3.Access3args{Object: fhOf(h), Access: want})
	res, ok := decoded(c, r, nfsv3.ReadAccess3res).(*nfsv3.Access3res_NFS3_OK)
	if !ok {
		c.x.t.Fatal("ACCESS failed")
	}
	return res.Resok.Access
}

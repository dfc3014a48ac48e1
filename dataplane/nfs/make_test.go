package nfs

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// me is a client that is the user of this process.
func (x *export) me() *client { return x.as(uint32(os.Geteuid()), uint32(os.Getegid())) }

func TestCreateModes(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	must(t, os.Mkdir(x.path("dir"), 0o755))
	must(t, os.Symlink("nowhere", x.path("link")))

	sized := withMode(0o640)
	sized.Size = &nfsv3.SetSize3_TRUE{Size: 1000}
	f, status := c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: sized})
	if a := c.mustAttr(f); status != nfsv3.NFS3_OK || a.Mode != 0o640 || a.Size != 1000 {
		t.Errorf("new file: %v, %+v", status, a)
	}
	// UNCHECKED on what is there keeps all but a size that is given.
	same, status := c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withMode(0o777)})
	if a := c.mustAttr(f); status != nfsv3.NFS3_OK || string(same) != string(f) || a.Mode != 0o640 || a.Size != 1000 {
		t.Errorf("again: %v, %+v", status, a)
	}
	_, status = c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)})
	if a := c.mustAttr(f); status != nfsv3.NFS3_OK || a.Size != 0 {
		t.Errorf("cut: %v, %+v", status, a)
	}
	for _, tc := range []struct {
		name string
		how  nfsv3.Createhow3
	}{
		{"f", &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)}},
		{"dir", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withMode(0o644)}},
		{"link", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withMode(0o644)}},
		{"link", &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)}},
	} {
		if _, status := c.create(root, tc.name, tc.how); status != nfsv3.NFS3ERR_EXIST {
			t.Errorf("%s: %v", tc.name, nfsv3.Nfsstat3_name[status])
		}
	}
	if _, err := os.Lstat(x.path("nowhere")); err == nil {
		t.Error("a link was followed")
	}
}

// CREATE of a name that others make and remove all the time finds it or makes it.
func TestCreateWhileOthersRemove(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		done := make(chan struct{})
		var others sync.WaitGroup
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				_ = os.WriteFile(x.path("f"), nil, 0o600)
				_ = os.Remove(x.path("f"))
			}
		})
		how := &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)}
		for range 400 {
			if _, status := c.create(root, "f", how); status != nfsv3.NFS3_OK {
				t.Errorf("%v", nfsv3.Nfsstat3_name[status])
				break
			}
			_ = os.Remove(x.path("f"))
		}
		close(done)
		others.Wait()
	})
}

// A new object is made, even if others remove it at once.
func TestMakeWhileOthersRemove(t *testing.T) {
	defer unix.Umask(unix.Umask(0o77)) // so that modes are set after the making
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		var done atomic.Bool
		var others sync.WaitGroup
		others.Go(func() {
			for !done.Load() {
				_ = unix.Unlink(x.path("name"))
				_ = unix.Rmdir(x.path("name"))
			}
		})
		for range 100 {
			for _, proc := range []uint32{8, 9, 10, 11} { // CREATE, MKDIR, SYMLINK, MKNOD
				c.want(proc, argsFor(proc, root), nfsv3.NFS3_OK)
				_ = os.Remove(x.path("name"))
			}
		}
		done.Store(true)
		others.Wait()
	})
}

// An EXCLUSIVE create that is sent again, even to a new server, is the same
// one; another client's is not.
func TestExclusiveCreate(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		c := x.me()
		root := c.root()
		how := &nfsv3.Createhow3_EXCLUSIVE{Verf: [8]byte{0xff, 2, 3, 4, 0xff, 6, 7, 8}}
		f, status := c.create(root, "f", how)
		if status != nfsv3.NFS3_OK {
			t.Fatal(status)
		}
		x.restart()
		again, status := c.create(root, "f", how)
		if status != nfsv3.NFS3_OK || string(again) != string(f) {
			t.Fatalf("again: %v", nfsv3.Nfsstat3_name[status])
		}
		other := &nfsv3.Createhow3_EXCLUSIVE{Verf: [8]byte{1, 2, 3, 4, 5, 6, 7, 9}}
		if _, status := c.create(root, "f", other); status != nfsv3.NFS3ERR_EXIST {
			t.Errorf("another verifier: %v", nfsv3.Nfsstat3_name[status])
		}
		if a := c.mustSet(f, withMode(0o600)); a.Mode != 0o600 {
			t.Errorf("mode %o", a.Mode)
		}
		if _, status := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); status != nfsv3.NFS3_OK {
			t.Errorf("write: %v", status)
		}
		if _, status := c.create(root, "f", how); status != nfsv3.NFS3ERR_EXIST {
			t.Errorf("after it was written: %v", nfsv3.Nfsstat3_name[status])
		}
	})
}

// A mode is what the client asks for, whatever the process's umask was.
func TestModesAreExact(t *testing.T) {
	old := unix.Umask(0o77)
	defer unix.Umask(old)
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o755))
	if x.umask != 0o77 {
		t.Fatalf("umask %o", x.umask)
	}
	c := x.me()
	root := c.root()
	f, _ := c.create(root, "f", &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o4666)})
	if a := c.mustAttr(f); a.Mode != 0o4666 {
		t.Errorf("file %o", a.Mode)
	}
	for _, mode := range []uint32{0o777, 0o1777, 0o2775} {
		r := c.nfs(9, &nfsv3.Mkdir3args{Where: in(root, "d"), Attributes: withMode(mode)})
		res, ok := decoded(c, r, nfsv3.ReadMkdir3res).(*nfsv3.Mkdir3res_NFS3_OK)
		if !ok {
			t.Fatal("MKDIR failed")
		}
		if a := c.mustAttr(handleOf(res.Resok.Obj)); a.Mode != mode || a.Type != nfsv3.NF3DIR {
			t.Errorf("directory %o, want %o", a.Mode, mode)
		}
		c.want(13, &nfsv3.Rmdir3args{Object: in(root, "d")}, nfsv3.NFS3_OK)
	}
}

func TestSymlinkAndReadlink(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for _, target := range []string{"a", "/etc/passwd", "../../..", strings.Repeat("x/", 2000)} {
		args := &nfsv3.Symlink3args{Where: in(root, "l"), Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: noChange(), SymlinkData: target}}
		r := c.nfs(10, args)
		res, ok := decoded(c, r, nfsv3.ReadSymlink3res).(*nfsv3.Symlink3res_NFS3_OK)
		if !ok {
			t.Fatalf("SYMLINK %.20s failed", target)
		}
		r = c.nfs(5, &nfsv3.Readlink3args{Symlink: fhOf(handleOf(res.Resok.Obj))})
		link, ok := decoded(c, r, nfsv3.ReadReadlink3res).(*nfsv3.Readlink3res_NFS3_OK)
		if !ok || link.Resok.Data != target || attrOf(link.Resok.SymlinkAttributes) == nil {
			t.Errorf("READLINK: %+v", link)
		}
		c.want(12, &nfsv3.Remove3args{Object: in(root, "l")}, nfsv3.NFS3_OK)
	}
	for target, want := range map[string]nfsv3.Nfsstat3{
		"": nfsv3.NFS3ERR_NOENT, "a\x00b": nfsv3.NFS3ERR_INVAL, strings.Repeat("x", 4096): nfsv3.NFS3ERR_NAMETOOLONG,
	} {
		c.want(10, &nfsv3.Symlink3args{Where: in(root, "l"), Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: noChange(), SymlinkData: target}}, want)
	}
	c.want(5, &nfsv3.Readlink3args{Symlink: fhOf(root)}, nfsv3.NFS3ERR_INVAL)
}

func TestMknod(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	mknod := func(what nfsv3.Mknoddata3) *nfsv3.Mknod3args {
		return &nfsv3.Mknod3args{Where: in(root, "node"), What: what}
	}
	for want, what := range map[nfsv3.Ftype3]nfsv3.Mknoddata3{
		nfsv3.NF3FIFO: &nfsv3.Mknoddata3_NF3FIFO{PipeAttributes: withMode(0o621)},
		nfsv3.NF3SOCK: &nfsv3.Mknoddata3_NF3SOCK{PipeAttributes: withMode(0o621)},
	} {
		c.want(11, mknod(what), nfsv3.NFS3_OK)
		h := c.mustLookup(root, "node")
		if a := c.mustAttr(h); a.Type != want || a.Mode != 0o621 {
			t.Errorf("%+v", a)
		}
		c.want(6, &nfsv3.Read3args{File: fhOf(h), Count: 1}, nfsv3.NFS3ERR_INVAL)
		c.want(7, &nfsv3.Write3args{File: fhOf(h), Count: 1, Data: []byte{1}}, nfsv3.NFS3ERR_INVAL)
		c.want(21, &nfsv3.Commit3args{File: fhOf(h)}, nfsv3.NFS3ERR_INVAL)
		c.want(12, &nfsv3.Remove3args{Object: in(root, "node")}, nfsv3.NFS3_OK)
	}
	for _, typ := range []nfsv3.Ftype3{nfsv3.NF3REG, nfsv3.NF3DIR, nfsv3.NF3LNK} {
		c.want(11, mknod(&nfsv3.Mknoddata3_default{Type: typ}), nfsv3.NFS3ERR_BADTYPE)
	}
}

// Devices are root's to make.
func TestRootMakesDevices(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o777))
	null := &nfsv3.Mknoddata3_NF3CHR{Device: nfsv3.Devicedata3{DevAttributes: withMode(0o666), Spec: nfsv3.Specdata3{Specdata1: 1, Specdata2: 3}}}
	c := x.as(1000, 1000)
	root := c.root()
	c.want(11, &nfsv3.Mknod3args{Where: in(root, "null"), What: null}, nfsv3.NFS3ERR_PERM)
	c = x.as(0, 0)
	c.want(11, &nfsv3.Mknod3args{Where: in(root, "null"), What: null}, nfsv3.NFS3_OK)
	a := c.mustAttr(c.mustLookup(root, "null"))
	if a.Type != nfsv3.NF3CHR || a.Rdev != (nfsv3.Specdata3{Specdata1: 1, Specdata2: 3}) {
		t.Errorf("%+v", a)
	}
	c.want(6, &nfsv3.Read3args{File: fhOf(c.mustLookup(root, "null")), Count: 1}, nfsv3.NFS3ERR_INVAL)
	// The kernel has 12 and 20 bits. To it, major 1<<12+1 would be 1.
	for spec, want := range map[nfsv3.Specdata3]nfsv3.Nfsstat3{
		{Specdata1: 1<<12 - 1, Specdata2: 1<<20 - 1}: nfsv3.NFS3_OK,
		{Specdata1: 1<<12 + 1, Specdata2: 3}:         nfsv3.NFS3ERR_INVAL,
		{Specdata1: 1, Specdata2: 1<<20 + 3}:         nfsv3.NFS3ERR_INVAL,
	} {
		what := &nfsv3.Mknoddata3_NF3CHR{Device: nfsv3.Devicedata3{DevAttributes: withMode(0o666), Spec: spec}}
		c.want(11, &nfsv3.Mknod3args{Where: in(root, "large"), What: what}, want)
		if want == nfsv3.NFS3_OK {
			if a := c.mustAttr(c.mustLookup(root, "large")); a.Rdev != spec {
				t.Errorf("%+v, want %+v", a.Rdev, spec)
			}
			c.want(12, &nfsv3.Remove3args{Object: in(root, "large")}, nfsv3.NFS3_OK)
		}
	}
}

// badNames are names and how procedures that make or take them answer.
func TestNames(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	long := strings.Repeat("n", 256)
	const (
		access = nfsv3.NFS3ERR_ACCES
		inval  = nfsv3.NFS3ERR_INVAL
		tooLng = nfsv3.NFS3ERR_NAMETOOLONG
		exist  = nfsv3.NFS3ERR_EXIST
		ok     = nfsv3.NFS3_OK
	)
	// By name: LOOKUP, making, REMOVE, RMDIR, RENAME.
	cases := []struct {
		name                                  string
		lookup, making, remove, rmdir, rename nfsv3.Nfsstat3
	}{
		{"", access, access, access, access, access},
		{".", ok, exist, inval, inval, inval},
		{"..", ok, exist, inval, exist, inval},
		{"a/b", inval, inval, inval, inval, inval},
		{"/", inval, inval, inval, inval, inval},
		{"../f", inval, inval, inval, inval, inval},
		{"a\x00b", inval, inval, inval, inval, inval},
		{long, tooLng, tooLng, tooLng, tooLng, tooLng},
	}
	for _, tc := range cases {
		w := in(root, tc.name)
		c.want(3, &nfsv3.Lookup3args{What: w}, tc.lookup)
		c.want(8, &nfsv3.Create3args{Where: w, How: &nfsv3.Createhow3_UNCHECKED{ObjAttributes: noChange()}}, tc.making)
		c.want(8, &nfsv3.Create3args{Where: w, How: &nfsv3.Createhow3_EXCLUSIVE{}}, tc.making)
		c.want(9, &nfsv3.Mkdir3args{Where: w, Attributes: noChange()}, tc.making)
		c.want(10, &nfsv3.Symlink3args{Where: w, Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: noChange(), SymlinkData: "t"}}, tc.making)
		c.want(11, &nfsv3.Mknod3args{Where: w, What: &nfsv3.Mknoddata3_NF3FIFO{PipeAttributes: noChange()}}, tc.making)
		c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: w}, tc.making)
		c.want(12, &nfsv3.Remove3args{Object: w}, tc.remove)
		c.want(13, &nfsv3.Rmdir3args{Object: w}, tc.rmdir)
		c.want(14, &nfsv3.Rename3args{From: w, To: in(root, "x")}, tc.rename)
		c.want(14, &nfsv3.Rename3args{From: in(root, "f"), To: w}, tc.rename)
	}
	most := strings.Repeat("n", 255)
	h := c.mkfile(root, most)
	if got := c.mustLookup(root, most); string(got) != string(h) {
		t.Error("the longest name leads elsewhere")
	}
	if got := c.mustLookup(root, ".."); string(got) != string(root) {
		t.Error("the root's parent is not the root")
	}
}

// Names are bytes: UTF-8 and what is not even that.
func TestNamesAreBytes(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for _, name := range []string{"grüße", "日本語", "\xff\xfe", "a b\n"} {
		must(t, os.WriteFile(x.path(name), []byte(name), 0o644))
		out, err := c.raw(Program, Version, 3, x.xids.Add(1), payload(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if status, err := checkResults(3, out); status != nfsv3.NFS3_OK || err != nil {
			t.Errorf("LOOKUP %q: %v, %v", name, status, err)
		}
		out, err = c.raw(Program, Version, 12, x.xids.Add(1), payload(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if status, err := checkResults(12, out); status != nfsv3.NFS3_OK || err != nil {
			t.Errorf("REMOVE %q: %v, %v", name, status, err)
		}
		if _, err := os.Lstat(x.path(name)); err == nil {
			t.Errorf("%q is there still", name)
		}
	}
}

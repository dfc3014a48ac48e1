package nfs

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"pgregory.net/rapid"
)

// listers are the ways of listing; "" is the file system's own.
var listers = []struct {
	name  string
	force func(*export)
}{
	{"offsets", func(x *export) { x.lister = byOffset{} }},
	{"hashed", func(x *export) { x.lister = newHashed(x.subtree) }},
}

func eachLister(t *testing.T, f func(t *testing.T, x *export)) {
	for _, l := range listers {
		t.Run(l.name, func(t *testing.T) {
			x := serve(t, options{})
			l.force(x)
			f(t, x)
		})
	}
}

// entry is an entry of either listing.
type listed struct {
	name   string
	fileid uint64
	cookie uint64
	attr   *nfsv3.Fattr3
	handle []byte
}

// page is the results of one call.
type page struct {
	status  nfsv3.Nfsstat3
	entries []listed
	verf    [8]byte
	eof     bool
	size    int // of READDIR3resok, in bytes
}

func (c *client) readdir(dir []byte, cookie uint64, verf [8]byte, count uint32) page {
	c.x.t.Helper()
	r := c.nfs(16, &nfsv3.Readdir3args{Dir: fhOf(dir), Cookie: cookie, Cookieverf: verf, Count: count})
	size := r.Len() - 4
	switch res := decoded(c, r, nfsv3.ReadReaddir3res).(type) {
	case *nfsv3.Readdir3res_NFS3_OK:
		p := page{verf: res.Resok.Cookieverf, eof: res.Resok.Reply.Eof, size: size}
		for e := res.Resok.Reply.Entries; e != nil; e = e.Nextentry {
			p.entries = append(p.entries, listed{name: e.Name, fileid: e.Fileid, cookie: e.Cookie})
		}
		return p
	case *nfsv3.Readdir3res_default:
		return page{status: res.Status}
	}
	panic("unreachable")
}

func (c *client) readdirplus(dir []byte, cookie uint64, verf [8]byte, dirCount, maxCount uint32) page {
	c.x.t.Helper()
	r := c.nfs(17, &nfsv3.Readdirplus3args{Dir: fhOf(dir), Cookie: cookie, Cookieverf: verf, Dircount: dirCount, Maxcount: maxCount})
	size := r.Len() - 4
	switch res := decoded(c, r, nfsv3.ReadReaddirplus3res).(type) {
	case *nfsv3.Readdirplus3res_NFS3_OK:
		p := page{verf: res.Resok.Cookieverf, eof: res.Resok.Reply.Eof, size: size}
		for e := res.Resok.Reply.Entries; e != nil; e = e.Nextentry {
			p.entries = append(p.entries, listed{e.Name, e.Fileid, e.Cookie, attrOf(e.NameAttributes), handleOf(e.NameHandle)})
		}
		return p
	case *nfsv3.Readdirplus3res_default:
		return page{status: res.Status}
	}
	panic("unreachable")
}

// list lists a whole directory and fails when a name comes twice. between is
// called after each page.
func (c *client) list(dir []byte, plus bool, count uint32, between func()) map[string]listed {
	c.x.t.Helper()
	all := make(map[string]listed)
	var cookie uint64
	var verf [8]byte
	for {
		p := c.readdir
		var got page
		if plus {
			got = c.readdirplus(dir, cookie, verf, count, count)
		} else {
			got = p(dir, cookie, verf, count)
		}
		if got.status != nfsv3.NFS3_OK {
			c.x.t.Fatalf("listing from %d with %d bytes: %v", cookie, count, nfsv3.Nfsstat3_name[got.status])
		}
		if got.size > int(count) {
			c.x.t.Fatalf("%d bytes of results, %d asked for", got.size, count)
		}
		for _, e := range got.entries {
			if _, twice := all[e.name]; twice {
				c.x.t.Fatalf("%s comes twice", e.name)
			}
			all[e.name] = e
			cookie = e.cookie
		}
		verf = got.verf
		if got.eof {
			return all
		}
		if len(got.entries) == 0 {
			c.x.t.Fatal("no entry and not the end")
		}
		between()
	}
}

func nothing() {}

// All names of a large directory come once, with what GETATTR and LOOKUP say.
func TestListLarge(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		n := 20000
		if _, own := x.lister.(byOffset); testing.Short() || !own {
			n = 3000
		}
		c := x.me()
		root := c.root()
		for i := range n {
			must(t, os.Symlink("t", x.path(fmt.Sprintf("name-%06d", i))))
		}
		for _, plus := range []bool{false, true} {
			all := c.list(root, plus, 32768, nothing)
			if len(all) != n+2 {
				t.Errorf("%d names, want %d", len(all), n+2)
			}
			for i := 0; i < n; i += 997 {
				name := fmt.Sprintf("name-%06d", i)
				e := all[name]
				h := c.mustLookup(root, name)
				a := c.mustAttr(h)
				if e.fileid != a.Fileid || (plus && (*e.attr != *a || string(e.handle) != string(h))) {
					t.Errorf("%s: %+v, attributes %+v", name, e, a)
				}
			}
		}
	})
}

// "." and ".." are there; the root's parent is the root, and no way out.
func TestListDots(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		c := x.me()
		root := c.root()
		sub := c.mkdir(root, "sub")
		rootID, subID := c.mustAttr(root).Fileid, c.mustAttr(sub).Fileid
		for _, tc := range []struct {
			dir       []byte
			dot, dots uint64
			dotsFH    []byte
		}{{root, rootID, rootID, root}, {sub, subID, rootID, root}} {
			all := c.list(tc.dir, true, 8192, nothing)
			dot, dots := all["."], all[".."]
			if dot.fileid != tc.dot || dots.fileid != tc.dots {
				t.Errorf("file IDs %d %d, want %d %d", dot.fileid, dots.fileid, tc.dot, tc.dots)
			}
			if string(dot.handle) != string(tc.dir) || string(dots.handle) != string(tc.dotsFH) || dots.attr.Fileid != tc.dots {
				t.Error("wrong handles or attributes")
			}
		}
		if got := c.mustLookup(sub, ".."); string(got) != string(root) {
			t.Error("LOOKUP of .. is not the parent")
		}
		if got := c.mustLookup(sub, "."); string(got) != string(sub) {
			t.Error("LOOKUP of . is not the directory")
		}
	})
}

// Listings have the file IDs of attributes, also where the device is part of them.
func TestListOnAnotherDevice(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		c := x.me()
		root := c.root()
		d := c.mkdir(root, "d")
		c.mkfile(d, "f")
		c.mkdir(d, "s")
		x.top.dev ^= 1 // then all is on another one, as in a btrfs subvolume
		c.sameFileIDs(d)
	})
}

// sameFileIDs compares the file IDs of listings with those of attributes.
func (c *client) sameFileIDs(dir []byte) {
	c.x.t.Helper()
	for _, plus := range []bool{false, true} {
		for name, e := range c.list(dir, plus, 8192, nothing) {
			if want := c.mustAttr(c.mustLookup(dir, name)).Fileid; e.fileid != want {
				c.x.t.Errorf("%s: file ID %x, its attributes have %x (READDIRPLUS %t)", name, e.fileid, want, plus)
			}
		}
	}
}

// Names that are there all the time are listed once, whatever the counts and
// whatever is made and removed in between, over a restart, too.
func TestListWhileItChanges(t *testing.T) {
	for _, l := range listers {
		t.Run(l.name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { listWhileItChanges(t, rt, l.force) })
		})
	}
}

func listWhileItChanges(t *testing.T, rt *rapid.T, force func(*export)) {
	x := serve(t, options{})
	defer x.Close()
	force(x)
	c := x.me()
	root := c.root()
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-zA-Z0-9._-]{3,60}`), 1, 60, rapid.ID).Draw(rt, "names")
	steady := rapid.IntRange(1, len(names)).Draw(rt, "steady")
	for _, name := range names[:steady] {
		must(t, os.WriteFile(x.path(name), nil, 0o600))
	}
	plus := rapid.Bool().Draw(rt, "plus")
	least := uint32(88 + 8 + 8 + 24 + 64)
	if plus {
		least += 160
	}
	restarts := 0
	all := c.list(root, plus, rapid.Uint32Range(least, 4096).Draw(rt, "count"), func() {
		for _, name := range names[steady:] {
			if rapid.Bool().Draw(rt, "there") {
				_ = os.WriteFile(x.path(name), nil, 0o600)
			} else {
				_ = os.Remove(x.path(name))
			}
		}
		if restarts < 2 && rapid.IntRange(0, 9).Draw(rt, "restart") == 0 {
			restarts++
			x.restart()
			force(x)
		}
	})
	for _, name := range names[:steady] {
		if _, ok := all[name]; !ok {
			rt.Fatalf("%s is missing", name)
		}
	}
	for name := range all {
		if !isDot([]byte(name)) && !slices.Contains(names, name) {
			rt.Fatalf("%s was never there", name)
		}
	}
}

// Removing everything while listing leaves nothing behind, as rm -r does.
func TestListAndRemove(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		c := x.me()
		root := c.root()
		for i := range 500 {
			must(t, os.WriteFile(x.path(fmt.Sprint("f", i)), nil, 0o600))
		}
		var pending []string
		var cookie uint64
		var verf [8]byte
		for {
			p := c.readdir(root, cookie, verf, 1000)
			for _, e := range p.entries {
				cookie = e.cookie
				if !isDot([]byte(e.name)) {
					pending = append(pending, e.name)
				}
			}
			for _, name := range pending {
				c.want(12, &nfsv3.Remove3args{Object: in(root, name)}, nfsv3.NFS3_OK)
			}
			pending = pending[:0]
			verf = p.verf
			if p.eof {
				break
			}
		}
		if left, _ := os.ReadDir(x.dir); len(left) != 0 {
			t.Errorf("%d names are left", len(left))
		}
	})
}

// count, dircount and maxcount are kept to the byte.
func TestListCounts(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		c := x.me()
		root := c.root()
		for i := range 30 {
			must(t, os.WriteFile(x.path(strings.Repeat("n", i*8+1)), nil, 0o600))
		}
		for count := uint32(0); count < 6000; count += 7 {
			p := c.readdir(root, 0, [8]byte{}, count)
			next := 24 + 256
			if p.status == nfsv3.NFS3ERR_TOOSMALL {
				if count > 88+8+8+280 {
					t.Errorf("%d bytes are enough for any name", count)
				}
				continue
			}
			if p.size > int(count) || (!p.eof && p.size+next < int(count)) {
				t.Errorf("%d bytes of results for a count of %d, end %v", p.size, count, p.eof)
			}
		}
		if p := c.readdirplus(root, 0, [8]byte{}, 0, 65536); len(p.entries) != 32 || !p.eof {
			t.Errorf("without a dircount: %d entries, end %v, %v", len(p.entries), p.eof, p.status)
		}
		for count := uint32(7); count < 3000; count += 7 {
			p := c.readdirplus(root, 0, [8]byte{}, count, 65536)
			names := 0
			for _, e := range p.entries {
				names += 24 + (len(e.name)+3)&^3
			}
			if p.status == nfsv3.NFS3ERR_TOOSMALL {
				if count > 280 {
					t.Errorf("a dircount of %d is enough for any name", count)
				}
				continue
			}
			if names > int(count) || (!p.eof && names+280 < int(count)) {
				t.Errorf("%d bytes of names for a dircount of %d, end %v", names, count, p.eof)
			}
		}
	})
}

func TestListErrors(t *testing.T) {
	eachLister(t, func(t *testing.T, x *export) {
		c := x.me()
		root := c.root()
		f := c.mkfile(root, "f")
		verf := c.readdir(root, 0, [8]byte{}, 4096).verf
		if p := c.readdir(f, 0, [8]byte{}, 4096); p.status != nfsv3.NFS3ERR_NOTDIR {
			t.Errorf("a file: %v", p.status)
		}
		if p := c.readdir(root, 5, [8]byte{1}, 4096); p.status != nfsv3.NFS3ERR_BAD_COOKIE {
			t.Errorf("another verifier: %v", p.status)
		}
		if p := c.readdir(root, 1<<63, verf, 4096); p.status != nfsv3.NFS3ERR_BAD_COOKIE {
			t.Errorf("a cookie that is none: %v", p.status)
		}
		if p := c.readdirplus(root, 1<<64-1, verf, 4096, 4096); p.status != nfsv3.NFS3ERR_BAD_COOKIE {
			t.Errorf("a cookie that is none: %v", p.status)
		}
	})
}

// What READDIR opens to learn file IDs that the directory does not tell: everything on overlayfs,
// directories on btrfs, where they may be roots of subvolumes, and the parent of such a root.
func TestEntriesElsewhere(t *testing.T) {
	here, there := &object{dev: 1}, &object{dev: 2}
	for _, tc := range []struct {
		name                  string
		layered, subvolumes   bool
		dir                   *object
		file, sub, dot, above bool
	}{
		{name: "one device", dir: here},
		{name: "overlayfs", layered: true, dir: here, file: true, sub: true, dot: true, above: true},
		{name: "btrfs", subvolumes: true, dir: here, sub: true},
		{name: "a subvolume", subvolumes: true, dir: there, sub: true, above: true},
	} {
		l := dirList{r: &request{srv: &subtree{layered: tc.layered, subvolumes: tc.subvolumes, top: here}}, dir: tc.dir}
		for _, e := range []struct {
			name      string
			dir, want bool
		}{{"f", false, tc.file}, {"d", true, tc.sub}, {".", true, tc.dot}, {"..", true, tc.above}} {
			if got := l.elsewhere(&dirent{name: []byte(e.name), dir: e.dir}); got != e.want {
				t.Errorf("%s: %s: %t, want %t", tc.name, e.name, got, e.want)
			}
		}
	}
}

func TestReleases(t *testing.T) {
	for release, want := range map[string]bool{
		"6.6.0": true, "6.10-rc1": true, "7.0.1": true, "6.1.0-28-amd64": false, "5.15": false, "x": false, "": false,
	} {
		if got := releaseAtLeast(release, 6, 6); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

// A directory whose entries can't be searched shows names and no more.
func TestListWithoutSearchRight(t *testing.T) {
	x := serve(t, options{})
	c := x.as(1000, 1000)
	if !isRoot {
		c = x.me()
	}
	must(t, os.Chmod(x.dir, 0o777))
	root := c.root()
	d := c.mkdir(root, "d")
	f := c.mkfile(d, "f")
	c.mustSet(d, withMode(0o600))
	all := c.list(d, true, 4096, nothing)
	if e, ok := all["f"]; !ok || e.attr != nil || e.handle != nil {
		t.Errorf("%+v", all)
	}
	c.want(3, &nfsv3.Lookup3args{What: in(d, "f")}, nfsv3.NFS3ERR_ACCES)
	if a := c.mustAttr(d); a.Mode != 0o600 {
		t.Errorf("mode %o", a.Mode)
	}
	c.mustSet(d, withMode(0o700))
	if got := c.mustLookup(d, "f"); string(got) != string(f) {
		t.Error("another handle")
	}
}

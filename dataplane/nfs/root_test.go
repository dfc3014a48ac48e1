package nfs

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// New objects belong to the caller, in the group that the kernel gives them.
func TestRootOwnership(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o777))
	root := x.as(0, 0).root()
	for _, who := range []struct{ uid, gid uint32 }{{0, 0}, {1000, 100}, {0, 7}, {4242, 0}} {
		c := x.as(who.uid, who.gid)
		f, d := c.mkfile(root, "f"), c.mkdir(root, "d")
		c.want(10, argsFor(10, root), nfsv3.NFS3_OK)
		l := c.mustLookup(root, "name")
		for _, h := range [][]byte{f, d, l} {
			if a := c.mustAttr(h); a.Uid != who.uid || a.Gid != who.gid {
				t.Errorf("%v made an object of %d:%d", who, a.Uid, a.Gid)
			}
		}
		c.want(12, &nfsv3.Remove3args{Object: in(root, "f")}, nfsv3.NFS3_OK)
		c.want(12, &nfsv3.Remove3args{Object: in(root, "name")}, nfsv3.NFS3_OK)
		c.want(13, &nfsv3.Rmdir3args{Object: in(root, "d")}, nfsv3.NFS3_OK)
	}
	// A set-group-ID directory gives its group on.
	must(t, os.Mkdir(x.path("shared"), 0o777))
	must(t, os.Chown(x.path("shared"), 0, 55))
	must(t, os.Chmod(x.path("shared"), 0o2777|os.ModeSetgid))
	c := x.as(1000, 100)
	if a := c.mustAttr(c.mkfile(c.mustLookup(root, "shared"), "f")); a.Gid != 55 {
		t.Errorf("group %d", a.Gid)
	}
}

// The kernel's rules hold for every caller.
func TestRootRights(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o755))
	admin := x.as(0, 0)
	root := admin.root()
	write := func(name string, mode os.FileMode, uid, gid int) []byte {
		must(t, os.WriteFile(x.path(name), []byte("data"), 0o600))
		must(t, os.Chown(x.path(name), uid, gid))
		must(t, os.Chmod(x.path(name), mode))
		return admin.mustLookup(root, name)
	}
	private := write("private", 0o600, 1000, 100)
	group := write("group", 0o640, 1000, 100)
	public := write("public", 0o644, 1000, 100)
	program := write("program", 0o711, 1000, 100)
	owned := write("owned", 0o000, 1000, 100)
	owner, member, other := x.as(1000, 1), x.as(2000, 5, 6, 100), x.as(3000, 3000)
	const ok, no = nfsv3.NFS3_OK, nfsv3.NFS3ERR_ACCES
	for _, tc := range []struct {
		name        string
		c           *client
		h           []byte
		read, write nfsv3.Nfsstat3
		access      uint32
	}{
		{"owner private", owner, private, ok, ok, nfsv3.ACCESS3_READ | nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND},
		{"owner owned", owner, owned, ok, ok, 0},
		{"member private", member, private, no, no, 0},
		{"member group", member, group, ok, no, nfsv3.ACCESS3_READ},
		{"other group", other, group, no, no, 0},
		{"other public", other, public, ok, no, nfsv3.ACCESS3_READ},
		{"other program", other, program, ok, no, nfsv3.ACCESS3_EXECUTE},
		{"root owned", admin, owned, ok, ok, nfsv3.ACCESS3_READ | nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND},
		{"root program", admin, program, ok, ok, nfsv3.ACCESS3_READ | nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND | nfsv3.ACCESS3_EXECUTE},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.c.status(6, argsFor(6, tc.h)); got != tc.read {
				t.Errorf("READ: %v", got)
			}
			for _, proc := range []uint32{7, 21} {
				if got := tc.c.status(proc, argsFor(proc, tc.h)); got != tc.write {
					t.Errorf("%s: %v", procedureNames[proc], got)
				}
			}
			if got := tc.c.access(tc.h, 0x3f); got != tc.access {
				t.Errorf("ACCESS %#x, want %#x", got, tc.access)
			}
		})
	}
	// Directories: only root may change this one.
	for _, proc := range []uint32{8, 9, 10, 11} {
		other.want(proc, argsFor(proc, root), no)
	}
	other.want(12, &nfsv3.Remove3args{Object: in(root, "public")}, no)
	other.want(14, &nfsv3.Rename3args{From: in(root, "public"), To: in(root, "x")}, no)
	owner.want(15, &nfsv3.Link3args{File: fhOf(public), Link: in(root, "x")}, no)
	if got := other.access(root, 0x3f); got != nfsv3.ACCESS3_READ|nfsv3.ACCESS3_LOOKUP {
		t.Errorf("ACCESS of the directory: %#x", got)
	}
	must(t, os.Mkdir(x.path("closed"), 0o700))
	closed := admin.mustLookup(root, "closed")
	admin.mkfile(closed, "f")
	other.want(3, &nfsv3.Lookup3args{What: in(closed, "f")}, no)
	other.want(16, argsFor(16, closed), no)
	other.want(17, argsFor(17, closed), no)
	// Only the owner and root change attributes, and only root the owner.
	chown := noChange()
	chown.Uid = &nfsv3.SetUid3_TRUE{Uid: 77}
	for _, tc := range []struct {
		c    *client
		attr nfsv3.Sattr3
		want nfsv3.Nfsstat3
	}{
		{other, withMode(0o777), nfsv3.NFS3ERR_PERM}, {other, withSize(0), no}, {owner, chown, nfsv3.NFS3ERR_PERM},
		{owner, withMode(0o604), ok}, {owner, withSize(2), ok}, {admin, chown, ok},
	} {
		if got, _ := tc.c.setattr(public, tc.attr, noGuard()); got != tc.want {
			t.Errorf("SETATTR: %v, want %v", nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[tc.want])
		}
	}
}

// Rights count at each READ, of a file that is open in the server, too.
func TestRootRightsChange(t *testing.T) {
	x := serve(t, options{})
	must(t, os.WriteFile(x.path("f"), []byte("data"), 0o644))
	c := x.as(3000, 3000)
	f := c.mustLookup(c.root(), "f")
	for _, tc := range []struct {
		mode os.FileMode
		want nfsv3.Nfsstat3
	}{{0o644, nfsv3.NFS3_OK}, {0o640, nfsv3.NFS3ERR_ACCES}, {0o604, nfsv3.NFS3_OK}, {0o600, nfsv3.NFS3ERR_ACCES}} {
		must(t, os.Chmod(x.path("f"), tc.mode))
		for range 2 {
			c.want(6, argsFor(6, f), tc.want)
		}
	}
	must(t, os.Chown(x.path("f"), 3000, 0))
	c.want(6, argsFor(6, f), nfsv3.NFS3_OK)
}

// Access control lists count as they do locally.
func TestRootAccessLists(t *testing.T) {
	x := serve(t, options{})
	c := x.as(0, 0)
	f := c.mkfile(c.root(), "f")
	c.mustSet(f, withMode(0o600))
	// user::rw-, user:3000:r--, group::---, mask::r--, other::---
	acl := []byte{2, 0, 0, 0,
		1, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
		2, 0, 4, 0, 0xb8, 0x0b, 0, 0,
		4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
		16, 0, 4, 0, 0xff, 0xff, 0xff, 0xff,
		32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	must(t, unix.Setxattr(x.path("f"), "system.posix_acl_access", acl, 0))
	listed, other := x.as(3000, 3000), x.as(3001, 3001)
	listed.want(6, argsFor(6, f), nfsv3.NFS3_OK)
	listed.want(7, argsFor(7, f), nfsv3.NFS3ERR_ACCES)
	other.want(6, argsFor(6, f), nfsv3.NFS3ERR_ACCES)
	if got := listed.access(f, 0x3f); got != nfsv3.ACCESS3_READ {
		t.Errorf("ACCESS %#x", got)
	}
}

// A default access control list decides about new files, and no umask.
func TestRootDefaultAccessLists(t *testing.T) {
	x := serve(t, options{})
	x.umask = 0o22
	// user::rwx, group::r-x, other::r-x: by chance what the umask would leave.
	acl := []byte{2, 0, 0, 0,
		1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
		4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,
		8, 0, 7, 0, 5, 0, 0, 0,
		16, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,
		32, 0, 5, 0, 0xff, 0xff, 0xff, 0xff}
	must(t, unix.Setxattr(x.dir, "system.posix_acl_default", acl, 0))
	c := x.as(0, 0)
	f, status := c.create(c.root(), "f", &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o4777)})
	if a := c.mustAttr(f); status != nfsv3.NFS3_OK || a.Mode != 0o4755 {
		t.Errorf("%v, mode %o", status, a.Mode)
	}
}

func TestRootSquash(t *testing.T) {
	for _, tc := range []struct {
		squash           Squash
		uid, gid         uint32
		wantUID, wantGID uint32
	}{
		{SquashNone, 0, 0, 0, 0},
		{SquashNone, 1000, 100, 1000, 100},
		{SquashRoot, 0, 0, 123, 456},
		{SquashRoot, 1000, 0, 1000, 456},
		{SquashRoot, 1000, 100, 1000, 100},
		{SquashAll, 0, 0, 123, 456},
		{SquashAll, 1000, 100, 123, 456},
	} {
		t.Run(squashNames[tc.squash], func(t *testing.T) {
			x := serve(t, options{}, func(c *Config) { c.Squash, c.AnonUID, c.AnonGID = tc.squash, 123, 456 })
			must(t, os.Chmod(x.dir, 0o777))
			c := x.as(tc.uid, tc.gid, 0, 5)
			if a := c.mustAttr(c.mkfile(c.root(), "f")); a.Uid != tc.wantUID || a.Gid != tc.wantGID {
				t.Errorf("made as %d:%d", a.Uid, a.Gid)
			}
		})
	}
	x := serve(t, options{}, func(c *Config) { c.Squash = SquashRoot })
	must(t, os.WriteFile(x.path("grouped"), []byte("data"), 0o640)) // of group 0
	c := x.as(1000, 100, 0)
	c.want(6, argsFor(6, c.mustLookup(c.root(), "grouped")), nfsv3.NFS3ERR_ACCES)
}

// Callers without a credential are nobody.
func TestRootAnonymous(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o777))
	c := x.as(0, 0)
	root := c.root()
	c.cred.Flavor, c.cred.Body = oncrpc.FlavorNone, nil
	if a := c.mustAttr(c.mkfile(root, "f")); a.Uid != Anonymous || a.Gid != Anonymous {
		t.Errorf("made as %d:%d", a.Uid, a.Gid)
	}
}

// A write by another user takes set-ID bits away; root's does not.
func TestRootSetIDBits(t *testing.T) {
	x := serve(t, options{})
	c := x.as(0, 0)
	f := c.mkfile(c.root(), "f")
	c.mustSet(f, withMode(0o6777))
	if c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); c.mustAttr(f).Mode != 0o6777 {
		t.Errorf("after root's: %o", c.mustAttr(f).Mode)
	}
	u := x.as(1000, 1000)
	if u.write(f, 0, []byte("x"), nfsv3.UNSTABLE); c.mustAttr(f).Mode != 0o777 {
		t.Errorf("after a user's: %o", c.mustAttr(f).Mode)
	}
	c.mustSet(f, withMode(0o6777))
	if u.setattr(f, withSize(0), noGuard()); c.mustAttr(f).Mode != 0o777 {
		t.Errorf("after truncating: %o", c.mustAttr(f).Mode)
	}
}

// A user who may write to a file may set both of its times to now, or one. When a program
// truncates a file, Linux clients set only mtime, and the size unless it stays the same.
func TestRootWritersSetTimesToNow(t *testing.T) {
	x := serve(t, options{})
	must(t, os.WriteFile(x.path("f"), []byte("data"), 0o600))
	must(t, os.Chown(x.path("f"), 1000, 100))
	must(t, os.Chmod(x.path("f"), 0o660))
	member, other := x.as(2000, 5, 100), x.as(3000, 3000)
	f := member.mustLookup(member.root(), "f")
	old := time.Unix(1e9, 0)
	const ok = nfsv3.NFS3_OK
	for _, tc := range []struct {
		name         string
		c            *client
		attr         nfsv3.Sattr3
		atime, mtime bool // to now
		want         nfsv3.Nfsstat3
	}{
		{"truncate", member, withSize(2), false, true, ok},
		{"same size", member, noChange(), false, true, ok},
		{"read", member, noChange(), true, false, ok},
		{"touch", member, noChange(), true, true, ok},
		{"another", other, noChange(), false, true, nfsv3.NFS3ERR_ACCES},
		{"with the mode", member, withMode(0o666), false, true, nfsv3.NFS3ERR_PERM},
	} {
		must(t, os.Chtimes(x.path("f"), old, old))
		if tc.atime {
			tc.attr.Atime = &nfsv3.SetAtime_default{SetIt: nfsv3.SET_TO_SERVER_TIME}
		}
		if tc.mtime {
			tc.attr.Mtime = &nfsv3.SetMtime_default{SetIt: nfsv3.SET_TO_SERVER_TIME}
		}
		if got, _ := tc.c.setattr(f, tc.attr, noGuard()); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[tc.want])
		}
		a := member.mustAttr(f)
		if atime, mtime := a.Atime.Seconds != 1e9, a.Mtime.Seconds != 1e9; tc.want == ok && (atime != tc.atime || mtime != tc.mtime) {
			t.Errorf("%s: atime %v, mtime %v", tc.name, a.Atime, a.Mtime)
		}
	}
	notNow := noChange()
	notNow.Mtime = &nfsv3.SetMtime_SET_TO_CLIENT_TIME{Mtime: nfsv3.Nfstime3{Seconds: 1e9}}
	if got, _ := member.setattr(f, notNow, noGuard()); got != nfsv3.NFS3ERR_PERM {
		t.Errorf("another time: %v", nfsv3.Nfsstat3_name[got])
	}
}

// Threads have their own identity back after many calls of many users.
func TestRootIdentityIsRestored(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o777))
	root := x.as(0, 0).root()
	var wg sync.WaitGroup
	for i := range uint32(8) {
		c := x.as(1000+i, 1000+i, 5, 6, i)
		wg.Go(func() {
			for range 50 {
				name := string(rune('a' + i))
				h, status := c.create(root, name, &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o600)})
				if status != nfsv3.NFS3_OK {
					t.Errorf("CREATE: %v", status)
					return
				}
				if a, _ := c.getattr(h); a == nil || a.Uid != 1000+i || a.Gid != 1000+i {
					t.Errorf("user %d made %+v", 1000+i, a)
				}
				c.status(12, &nfsv3.Remove3args{Object: in(root, name)})
			}
		})
	}
	wg.Wait()
	own, err := os.ReadFile("/proc/self/status")
	must(t, err)
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	must(t, err)
	for _, path := range tasks {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		if uids := field(status, "Uid:"); uids != "0\t0\t0\t0" {
			t.Errorf("%s: Uid %q", path, uids)
		}
		if eff := field(status, "CapEff:"); eff != field(own, "CapEff:") {
			t.Errorf("%s: CapEff %q", path, eff)
		}
		if gids := field(status, "Gid:"); gids != "0\t0\t0\t0" {
			t.Errorf("%s: Gid %q", path, gids)
		}
	}
	if _, ok := posix.NewSwitcher(0, nil); !ok {
		t.Error("this process can't act for others any more")
	}
}

// field is a line of /proc/PID/status.
func field(status []byte, name string) string {
	for len(status) > 0 {
		var line []byte
		for i, c := range status {
			if c == '\n' {
				line, status = status[:i], status[i+1:]
				break
			}
		}
		if line == nil {
			break
		}
		if len(line) > len(name) && string(line[:len(name)]) == name {
			return string(line[len(name)+1:])
		}
	}
	return ""
}

// Root's objects are found by the kernel: the modes of the other tests are
// what they are called.
func TestRootUsesHandles(t *testing.T) {
	x := serve(t, options{})
	if _, ok := x.locate.(byHandle); !ok || x.idKind != fh.Kernel || x.switcher == nil || !x.hasOpenat2 {
		t.Errorf("locator %T, kind %v, switcher %v, openat2 %v", x.locate, x.idKind, x.switcher, x.hasOpenat2)
	}
	if _, ok := x.lister.(byOffset); !ok {
		t.Errorf("lister %T", x.lister)
	}
	x = serve(t, options{byName: true, inodeIDs: true})
	if _, ok := x.locate.(*byName); !ok || x.idKind != fh.Inode {
		t.Errorf("locator %T, kind %v", x.locate, x.idKind)
	}
}

// A process that is root and can't act for callers does all as itself.
func TestRootWithoutSwitching(t *testing.T) {
	x := serve(t, options{noSwitch: true, byName: true})
	c := x.as(1000, 1000)
	f := c.mkfile(c.root(), "f")
	if a := c.mustAttr(f); a.Uid != 0 {
		t.Errorf("made as %d", a.Uid)
	}
	c.want(7, argsFor(7, f), nfsv3.NFS3_OK)
	if got := c.access(f, 0x3f); got != nfsv3.ACCESS3_READ|nfsv3.ACCESS3_MODIFY|nfsv3.ACCESS3_EXTEND {
		t.Errorf("ACCESS %#x", got)
	}
}

// Kernels without faccessat2 leave the decision to the mode.
func TestRootRightsByMode(t *testing.T) {
	x := serve(t, options{})
	admin := x.as(0, 0)
	f := admin.mkfile(admin.root(), "f")
	admin.mustSet(f, withMode(0o750))
	must(t, os.Chown(x.path("f"), 1000, 100))
	must(t, os.Chmod(x.path("f"), 0o641))
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	for _, tc := range []struct {
		c    cred
		want uint32
	}{
		{cred{uid: 1000, gid: 1}, 6}, {cred{uid: 1, gid: 100}, 4}, {cred{uid: 1, gid: 1, gids: []uint32{7, 100}}, 4},
		{cred{uid: 1, gid: 1}, 1}, {cred{}, 7},
	} {
		for mask := uint32(1); mask <= 7; mask++ {
			err := x.permittedByMode(o, &tc.c, mask)
			if (err == nil) != (mask&tc.want == mask) {
				t.Errorf("%+v, mask %o: %v", tc.c, mask, err)
			}
		}
	}
}

// A default access control list with no more than user::rwx, group::---, other::--- leaves
// new objects without a list. Their modes alone show that it was there.
func TestRootShortDefaultAccessLists(t *testing.T) {
	x := serve(t, options{})
	x.umask = 0o22
	acl := []byte{2, 0, 0, 0,
		1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
		4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
		32, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	must(t, unix.Setxattr(x.dir, "system.posix_acl_default", acl, 0))
	c := x.as(0, 0)
	root := c.root()
	f, status := c.create(root, "f", &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o666)})
	if a := c.mustAttr(f); status != nfsv3.NFS3_OK || a.Mode != 0o600 {
		t.Errorf("file: %v, mode %o", status, a.Mode)
	}
	c.want(9, &nfsv3.Mkdir3args{Where: in(root, "d"), Attributes: withMode(0o777)}, nfsv3.NFS3_OK)
	if a := c.mustAttr(c.mustLookup(root, "d")); a.Mode != 0o700 {
		t.Errorf("directory: mode %o", a.Mode)
	}
	c.want(11, &nfsv3.Mknod3args{Where: in(root, "p"), What: &nfsv3.Mknoddata3_NF3FIFO{PipeAttributes: withMode(0o666)}}, nfsv3.NFS3_OK)
	if a := c.mustAttr(c.mustLookup(root, "p")); a.Mode != 0o600 {
		t.Errorf("FIFO: mode %o", a.Mode)
	}
}

// CREATE gives set-ID bits also to a file for which it sets size and owner, which clear them.
func TestRootCreateKeepsSetIDBits(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Chmod(x.dir, 0o777))
	a := withMode(0o6755)
	a.Uid, a.Gid = &nfsv3.SetUid3_TRUE{Uid: 1000}, &nfsv3.SetGid3_TRUE{Gid: 1000}
	c := x.as(0, 0)
	root := c.root()
	f, status := c.create(root, "f", &nfsv3.Createhow3_GUARDED{ObjAttributes: a})
	if got := c.mustAttr(f); status != nfsv3.NFS3_OK || got.Mode != 0o6755 || got.Uid != 1000 || got.Gid != 1000 {
		t.Errorf("with an owner: %v, %+v", status, got)
	}
	a = withMode(0o6755)
	a.Size = &nfsv3.SetSize3_TRUE{Size: 1000}
	f, status = x.as(1000, 1000).create(root, "g", &nfsv3.Createhow3_GUARDED{ObjAttributes: a})
	if got := c.mustAttr(f); status != nfsv3.NFS3_OK || got.Mode != 0o6755 || got.Size != 1000 {
		t.Errorf("with a size: %v, %+v", status, got)
	}
}

package nfs

import (
	"os"
	"testing"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// mustAttr gets attributes that must be there.
func (c *client) mustAttr(h []byte) *nfsv3.Fattr3 {
	c.x.t.Helper()
	a, status := c.getattr(h)
	if status != nfsv3.NFS3_OK {
		c.x.t.Fatalf("GETATTR: %v", nfsv3.Nfsstat3_name[status])
	}
	return a
}

func (c *client) mustLookup(dir []byte, name string) []byte {
	c.x.t.Helper()
	h, status := c.lookup(dir, name)
	if status != nfsv3.NFS3_OK {
		c.x.t.Fatalf("LOOKUP %s: %v", name, nfsv3.Nfsstat3_name[status])
	}
	return h
}

func toTime(t unix.Timespec) nfsv3.Nfstime3 {
	return nfsv3.Nfstime3{Seconds: uint32(t.Sec), Nseconds: uint32(t.Nsec)}
}

// Attributes are the kernel's, for every type of object.
func TestAttributesAreTheKernels(t *testing.T) {
	x := serve(t, options{})
	c := x.as(0, 0)
	root := c.root()
	must(t, os.WriteFile(x.path("file"), make([]byte, 12345), 0o640))
	must(t, os.Chmod(x.path("file"), 0o4640))
	must(t, os.Link(x.path("file"), x.path("hard")))
	must(t, os.Mkdir(x.path("dir"), 0o711))
	must(t, os.Symlink("nowhere/at all", x.path("link")))
	must(t, unix.Mkfifo(x.path("fifo"), 0o600))
	must(t, unix.Mknod(x.path("sock"), unix.S_IFSOCK|0o600, 0))
	types := map[string]nfsv3.Ftype3{"file": nfsv3.NF3REG, "hard": nfsv3.NF3REG, "dir": nfsv3.NF3DIR,
		"link": nfsv3.NF3LNK, "fifo": nfsv3.NF3FIFO, "sock": nfsv3.NF3SOCK}
	for name, typ := range types {
		t.Run(name, func(t *testing.T) {
			got := c.mustAttr(c.mustLookup(root, name))
			var st unix.Stat_t
			must(t, unix.Lstat(x.path(name), &st))
			want := nfsv3.Fattr3{
				Type: typ, Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), Uid: st.Uid, Gid: st.Gid,
				Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, Fsid: x.fsid, Fileid: st.Ino,
				Atime: toTime(st.Atim), Mtime: toTime(st.Mtim), Ctime: toTime(st.Ctim),
			}
			if *got != want {
				t.Errorf("got  %+v\nwant %+v", *got, want)
			}
		})
	}
	if a := c.mustAttr(root); a.Type != nfsv3.NF3DIR {
		t.Errorf("root is a %v", a.Type)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setattr sets attributes and returns the status and the wcc_data.
func (c *client) setattr(h []byte, a nfsv3.Sattr3, guard nfsv3.Sattrguard3) (nfsv3.Nfsstat3, nfsv3.WccData) {
	c.x.t.Helper()
	r := c.nfs(2, &nfsv3.Setattr3args{Object: fhOf(h), NewAttributes: a, Guard: guard})
	switch res := decoded(c, r, nfsv3.ReadSetattr3res).(type) {
	case *nfsv3.Setattr3res_NFS3_OK:
		return nfsv3.NFS3_OK, res.Resok.ObjWcc
	case *nfsv3.Setattr3res_default:
		return res.Status, res.Resfail.ObjWcc
	}
	panic("unreachable")
}

func (c *client) mustSet(h []byte, a nfsv3.Sattr3) *nfsv3.Fattr3 {
	c.x.t.Helper()
	if status, _ := c.setattr(h, a, noGuard()); status != nfsv3.NFS3_OK {
		c.x.t.Fatalf("SETATTR: %v", nfsv3.Nfsstat3_name[status])
	}
	return c.mustAttr(h)
}

func withSize(n uint64) nfsv3.Sattr3 {
	a := noChange()
	a.Size = &nfsv3.SetSize3_TRUE{Size: n}
	return a
}

func TestSetattr(t *testing.T) {
	x := serve(t, options{})
	c := x.as(uint32(os.Geteuid()), uint32(os.Getegid()))
	root := c.root()
	f := c.mkfile(root, "f")

	if a := c.mustSet(f, withMode(0o4751)); a.Mode != 0o4751 {
		t.Errorf("mode %o", a.Mode)
	}
	if a := c.mustSet(f, withSize(5<<30)); a.Size != 5<<30 || a.Used > 1<<20 {
		t.Errorf("size %d, used %d: should be a hole", a.Size, a.Used)
	}
	if a := c.mustSet(f, withSize(7)); a.Size != 7 {
		t.Errorf("size %d", a.Size)
	}
	times := noChange()
	times.Atime = &nfsv3.SetAtime_SET_TO_CLIENT_TIME{Atime: nfsv3.Nfstime3{Seconds: 1e9, Nseconds: 5}}
	times.Mtime = &nfsv3.SetMtime_SET_TO_CLIENT_TIME{Mtime: nfsv3.Nfstime3{Seconds: 1 << 31, Nseconds: 999999999}}
	a := c.mustSet(f, times)
	if a.Atime != (nfsv3.Nfstime3{Seconds: 1e9, Nseconds: 5}) || a.Mtime != (nfsv3.Nfstime3{Seconds: 1 << 31, Nseconds: 999999999}) {
		t.Errorf("times %v %v", a.Atime, a.Mtime)
	}
	now := noChange()
	now.Mtime = &nfsv3.SetMtime_default{SetIt: nfsv3.SET_TO_SERVER_TIME}
	a = c.mustSet(f, now)
	if a.Atime.Seconds != 1e9 || time.Since(time.Unix(int64(a.Mtime.Seconds), 0)).Abs() > time.Hour {
		t.Errorf("only mtime should be now: %v %v", a.Atime, a.Mtime)
	}
	owner := noChange()
	owner.Uid, owner.Gid = &nfsv3.SetUid3_TRUE{Uid: a.Uid}, &nfsv3.SetGid3_TRUE{Gid: a.Gid}
	if b := c.mustSet(f, owner); b.Uid != a.Uid || b.Gid != a.Gid {
		t.Errorf("owner %d:%d", b.Uid, b.Gid)
	}
}

// All at once: the mode is set after the owner, which takes set-ID bits away,
// and the times after the size, which changes them.
func TestSetattrOrder(t *testing.T) {
	x := serve(t, options{})
	c := x.as(uint32(os.Geteuid()), uint32(os.Getegid()))
	f := c.mkfile(c.root(), "f")
	a := withMode(0o4755)
	a.Uid, a.Gid = &nfsv3.SetUid3_TRUE{Uid: uint32(os.Geteuid())}, &nfsv3.SetGid3_TRUE{Gid: uint32(os.Getegid())}
	a.Size = &nfsv3.SetSize3_TRUE{Size: 99}
	a.Mtime = &nfsv3.SetMtime_SET_TO_CLIENT_TIME{Mtime: nfsv3.Nfstime3{Seconds: 77}}
	got := c.mustSet(f, a)
	if got.Mode != 0o4755 || got.Size != 99 || got.Mtime.Seconds != 77 {
		t.Errorf("%+v", got)
	}
}

func TestSetattrErrors(t *testing.T) {
	x := serve(t, options{})
	c := x.as(uint32(os.Geteuid()), uint32(os.Getegid()))
	root := c.root()
	f := c.mkfile(root, "f")
	must(t, os.Symlink("x", x.path("link")))
	must(t, unix.Mkfifo(x.path("fifo"), 0o600))
	link, fifo := c.mustLookup(root, "link"), c.mustLookup(root, "fifo")
	badOwner := noChange()
	badOwner.Uid = &nfsv3.SetUid3_TRUE{Uid: invalidID}
	cases := []struct {
		name string
		h    []byte
		attr nfsv3.Sattr3
		want nfsv3.Nfsstat3
	}{
		{"size of a directory", root, withSize(0), nfsv3.NFS3ERR_ISDIR},
		{"size of a link", link, withSize(0), nfsv3.NFS3ERR_INVAL},
		{"size of a FIFO", fifo, withSize(0), nfsv3.NFS3ERR_INVAL},
		{"size over all", f, withSize(1 << 63), nfsv3.NFS3ERR_FBIG},
		{"mode of a link", link, withMode(0o600), nfsv3.NFS3ERR_NOTSUPP},
		{"owner -1", f, badOwner, nfsv3.NFS3ERR_INVAL},
	}
	for _, tc := range cases {
		if got, _ := c.setattr(tc.h, tc.attr, noGuard()); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[tc.want])
		}
	}
}

// A guarded SETATTR works only as long as the client knows the present ctime.
func TestSetattrGuard(t *testing.T) {
	x := serve(t, options{})
	c := x.as(uint32(os.Geteuid()), uint32(os.Getegid()))
	f := c.mkfile(c.root(), "f")
	old := c.mustAttr(f).Ctime
	status, wcc := c.setattr(f, withMode(0o600), &nfsv3.Sattrguard3_TRUE{ObjCtime: old})
	if status != nfsv3.NFS3_OK {
		t.Fatalf("right guard: %v", nfsv3.Nfsstat3_name[status])
	}
	pre, ok := wcc.Before.(*nfsv3.PreOpAttr_TRUE)
	if !ok || pre.Attributes.Ctime != old {
		t.Errorf("wcc before: %+v", wcc.Before)
	}
	if post := attrOf(wcc.After); post == nil || post.Mode != 0o600 {
		t.Errorf("wcc after: %+v", post)
	}
	wrong := nfsv3.Nfstime3{Seconds: old.Seconds - 1}
	if status, _ := c.setattr(f, withMode(0o644), &nfsv3.Sattrguard3_TRUE{ObjCtime: wrong}); status != nfsv3.NFS3ERR_NOT_SYNC {
		t.Errorf("wrong guard: %v", nfsv3.Nfsstat3_name[status])
	}
	if a := c.mustAttr(f); a.Mode != 0o600 {
		t.Errorf("changed in spite of the guard: %o", a.Mode)
	}
}

// Links have their own times and owner.
func TestSetattrOfLink(t *testing.T) {
	x := serve(t, options{})
	c := x.as(uint32(os.Geteuid()), uint32(os.Getegid()))
	root := c.root()
	must(t, os.WriteFile(x.path("target"), nil, 0o600))
	must(t, os.Symlink("target", x.path("link")))
	target := c.mustAttr(c.mustLookup(root, "target"))
	a := noChange()
	a.Mtime = &nfsv3.SetMtime_SET_TO_CLIENT_TIME{Mtime: nfsv3.Nfstime3{Seconds: 42}}
	a.Uid = &nfsv3.SetUid3_TRUE{Uid: uint32(os.Geteuid())}
	if got := c.mustSet(c.mustLookup(root, "link"), a); got.Mtime.Seconds != 42 {
		t.Errorf("link's mtime %v", got.Mtime)
	}
	if now := c.mustAttr(c.mustLookup(root, "target")); *now != *target {
		t.Errorf("the target changed: %+v", now)
	}
}

// Attributes from before an operation are told only when no other one came in
// between.
func TestOverlappingChangesHideTheirPast(t *testing.T) {
	var m modifications
	a, alone := m.begin()
	if !alone {
		t.Fatal("the first is not alone")
	}
	b, alone := m.begin()
	if alone {
		t.Error("the second is alone")
	}
	if m.end(a) {
		t.Error("the first was overlapped")
	}
	m.end(b)
	d, alone := m.begin()
	if !alone || !m.end(d) {
		t.Error("afterwards there should be no overlap")
	}
}

// The same in a reply: the directory is being changed by another call, too.
func TestOverlapHidesWCC(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	before := func(name string) nfsv3.PreOpAttr {
		t.Helper()
		r := c.nfs(9, &nfsv3.Mkdir3args{Where: in(root, name), Attributes: noChange()})
		res, ok := decoded(c, r, nfsv3.ReadMkdir3res).(*nfsv3.Mkdir3res_NFS3_OK)
		if !ok || attrOf(res.Resok.DirWcc.After) == nil {
			t.Fatalf("MKDIR: %+v", res)
		}
		return res.Resok.DirWcc.Before
	}
	if _, there := before("a").(*nfsv3.PreOpAttr_TRUE); !there {
		t.Error("alone: no attributes from before")
	}
	token, _ := x.top.mods.begin()
	if _, there := before("b").(*nfsv3.PreOpAttr_TRUE); there {
		t.Error("overlapping: attributes from before")
	}
	x.top.mods.end(token)
	if _, there := before("c").(*nfsv3.PreOpAttr_TRUE); !there {
		t.Error("alone again: no attributes from before")
	}
}

// A CREATE that truncates a file changes it beside another call.
func TestCreateHidesThePastOfWhatItTruncates(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	token, _ := o.mods.begin()
	if _, status := c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)}); status != nfsv3.NFS3_OK {
		t.Fatal(status)
	}
	if o.mods.end(token) {
		t.Error("another call would have the truncation as its own")
	}
}

// An rdmad that is not root changes the mode of a file for the moment of opening it, and then
// back. A SETATTR at that moment is not undone by that.
func TestModeWhileAFileIsOpened(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.mustSet(f, withMode(0o400))
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	o.open.Lock() // as openData does
	must(t, os.Chmod(x.path("f"), 0o600))
	set := make(chan struct{})
	go func() {
		defer close(set)
		c.setattr(f, withMode(0o644), noGuard())
	}()
	select {
	case <-set:
	case <-time.After(20 * time.Millisecond):
	}
	must(t, os.Chmod(x.path("f"), 0o400))
	o.open.Unlock()
	<-set
	info, err := os.Stat(x.path("f"))
	must(t, err)
	if info.Mode() != 0o644 {
		t.Errorf("mode %v, want 0644", info.Mode())
	}
}

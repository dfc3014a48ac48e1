package nfs

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// also adds another export beside the first. It returns its directory.
func also(t testing.TB, name string, change ...func(*Export)) (dir string, add func(*Config)) {
	t.Helper()
	dir = filepath.Join(tempDir(t), name)
	must(t, os.Mkdir(dir, 0o777))
	must(t, os.Chmod(dir, 0o777))
	return dir, func(c *Config) {
		e := Export{Path: dir}
		for _, f := range change {
			f(&e)
		}
		c.Exports = append(c.Exports, e)
	}
}

// from is a client with another address.
func (c *client) from(addr string) *client {
	other := *c
	other.peer = netip.AddrPortFrom(netip.MustParseAddr(addr), 700)
	return &other
}

func network(prefix string, o Options) Client {
	return Client{Networks: []netip.Prefix{netip.MustParsePrefix(prefix)}, Options: o}
}

func (c *client) mustMount(path string) []byte {
	c.x.t.Helper()
	h, status := c.mnt(path)
	if status != mount.MNT3_OK {
		c.x.t.Fatalf("mount of %s: %v", path, status)
	}
	return h
}

func (c *client) wantMount(path string, want mount.Mountstat3) {
	c.x.t.Helper()
	if _, status := c.mnt(path); status != want {
		c.x.t.Errorf("mount of %s by %s: %v, want %v", path, c.peer, status, want)
	}
}

// EXPORT lists all exports with the networks of their clients. MNT mounts each of them, and
// directories below. DUMP lists what was mounted.
func TestSeveralExports(t *testing.T) {
	home, addHome := also(t, "home", func(e *Export) {
		e.Clients = []Client{network("192.0.2.0/24", Options{}), network("192.0.2.7/32", Options{})}
	})
	logs, addLogs := also(t, "logs")
	x := serve(t, options{}, addHome, addLogs)
	must(t, os.MkdirAll(filepath.Join(home, "a/b"), 0o755))
	must(t, os.WriteFile(filepath.Join(logs, "today"), []byte("logs"), 0o644))
	c := x.me()
	list := ""
	for e := decoded(c, c.mountCall(3, mountExport, nil), mount.ReadExports); e != nil; e = e.ExNext {
		list += e.ExDir
		for g := e.ExGroups; g != nil; g = g.GrNext {
			list += " " + g.GrName
		}
		list += "\n"
	}
	if want := fmt.Sprintf("/export\n%s 192.0.2.7/32 192.0.2.0/24\n%s\n", home, logs); list != want {
		t.Errorf("EXPORT:\n%swant:\n%s", list, want)
	}
	root := c.root()
	inHome, inLogs := c.mustMount(home), c.mustMount(logs)
	if bytes.Equal(root, inHome) || bytes.Equal(root, inLogs) || bytes.Equal(inHome, inLogs) {
		t.Error("two exports have one handle")
	}
	if b := c.mustMount(home + "/a/b"); !bytes.Equal(b, c.mustLookup(c.mustLookup(inHome, "a"), "b")) {
		t.Error("a directory below an export has another handle")
	}
	if a, b := c.mustAttr(inHome), c.mustAttr(inLogs); a.Fsid == b.Fsid {
		t.Error("two exports have one fsid")
	}
	if got, status := c.read(c.mustLookup(inLogs, "today"), 0, 10); status != nfsv3.NFS3_OK || string(got.Data) != "logs" {
		t.Errorf("%v, %+v", status, got)
	}
	if got, want := c.dump(), "192.0.2.1:/export 192.0.2.1:"+home+" 192.0.2.1:"+logs+" 192.0.2.1:"+home+"/a/b "; got != want {
		t.Errorf("DUMP: %q, want %q", got, want)
	}
	c.wantMount(home+"/none", mount.MNT3ERR_NOENT)
	c.wantMount(home+"s", mount.MNT3ERR_NOENT) // below "/", which is the first export
	c.wantMount(logs+"/today", mount.MNT3ERR_NOTDIR)
	// All handles are good after a restart, and those of former exports are not.
	x.restart()
	for _, h := range [][]byte{root, inHome, inLogs} {
		c.want(1, argsFor(1, h), nfsv3.NFS3_OK)
	}
	x.cfg.Exports = x.cfg.Exports[:1]
	x.restart()
	c.want(1, argsFor(1, inHome), nfsv3.NFS3_OK)
	c.want(1, argsFor(1, inLogs), nfsv3.NFS3ERR_STALE)
}

// A handle that comes after padding (RDMA_MSGP) has its export, too.
func TestPaddedHandle(t *testing.T) {
	home, addHome := also(t, "home")
	c := serve(t, options{}, addHome).me()
	h := c.mustMount(home)
	pad := oncrpc.Padding{Align: 512, Thresh: 1, Base: 36}
	args := xdr.AppendOpaque(nil, h)
	args = slices.Insert(args, xdr.Unit, make([]byte, pad.Before(xdr.Unit, len(h)))...)
	out, err := c.raw(Program, Version, 1, 1, oncrpc.Payload{Stream: args, Padding: pad})
	must(t, err)
	if status, err := checkResults(1, out); err != nil || status != nfsv3.NFS3_OK {
		t.Errorf("%v, %v", nfsv3.Nfsstat3_name[status], err)
	}
}

// Without Config.Export there are no other names than the paths.
func TestExportsByPathOnly(t *testing.T) {
	home, addHome := also(t, "home")
	x := serve(t, options{}, addHome, func(c *Config) { c.Path = "" })
	c := x.me()
	c.mustMount(home)
	for _, path := range []string{"/", "/export", "/home", filepath.Dir(home), x.dir} {
		c.wantMount(path, mount.MNT3ERR_ACCES)
	}
}

// The network of a client decides its options, at each call. The longest prefix counts.
// Clients of other networks have no access.
func TestOptionsByNetwork(t *testing.T) {
	x := serve(t, options{}, func(c *Config) {
		c.Clients = []Client{
			network("192.0.2.0/24", Options{ReadOnly: true}), network("192.0.2.1/32", Options{}), network("2001:db8::/32", Options{}),
		}
	})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	const modify = nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND
	for addr, want := range map[string]struct {
		mount  mount.Mountstat3
		read   nfsv3.Nfsstat3
		write  nfsv3.Nfsstat3
		access uint32
	}{
		"192.0.2.1":        {mount.MNT3_OK, nfsv3.NFS3_OK, nfsv3.NFS3_OK, modify},
		"::ffff:192.0.2.1": {mount.MNT3_OK, nfsv3.NFS3_OK, nfsv3.NFS3_OK, modify},
		"192.0.2.2":        {mount.MNT3_OK, nfsv3.NFS3_OK, nfsv3.NFS3ERR_ROFS, 0},
		"2001:db8::7%eth0": {mount.MNT3_OK, nfsv3.NFS3_OK, nfsv3.NFS3_OK, modify},
		"198.51.100.1":     {mount.MNT3ERR_ACCES, nfsv3.NFS3ERR_STALE, nfsv3.NFS3ERR_STALE, 0},
		"::192.0.2.1":      {mount.MNT3ERR_ACCES, nfsv3.NFS3ERR_STALE, nfsv3.NFS3ERR_STALE, 0},
	} {
		other := c.from(addr)
		other.wantMount("/export", want.mount)
		if _, status := other.read(f, 0, 1); status != want.read {
			t.Errorf("%s: READ %v, want %v", addr, status, want.read)
		}
		if _, status := other.write(f, 0, []byte("x"), nfsv3.UNSTABLE); status != want.write {
			t.Errorf("%s: WRITE %v, want %v", addr, status, want.write)
		}
		if want.read == nfsv3.NFS3_OK {
			if got := other.access(f, modify); got != want.access {
				t.Errorf("%s: ACCESS %#x, want %#x", addr, got, want.access)
			}
		}
	}
}

// Every procedure can be refused: its results have the right form.
func TestRefusedProcedures(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.Clients = []Client{network("192.0.2.1/32", Options{})} })
	root := x.me().root()
	out := x.me().from("198.51.100.1")
	for proc := uint32(1); proc < procedureCount; proc++ {
		out.want(proc, argsFor(proc, root), nfsv3.NFS3ERR_STALE)
	}
}

// A handle is good for its own export only: the options of another one never apply to it.
func TestHandlesStayInTheirExport(t *testing.T) {
	dir, add := also(t, "private", func(e *Export) {
		e.ReadOnly = true
		e.Clients = []Client{network("192.0.2.1/32", Options{ReadOnly: true})}
	})
	x := serve(t, options{}, add)
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o666))
	private := c.mustMount(dir)
	secret := c.mustLookup(private, "secret")
	c.want(7, argsFor(7, secret), nfsv3.NFS3ERR_ROFS)
	c.want(8, argsFor(8, private), nfsv3.NFS3ERR_ROFS)
	stranger := c.from("198.51.100.1")
	stranger.want(1, argsFor(1, root), nfsv3.NFS3_OK)
	stranger.want(1, argsFor(1, secret), nfsv3.NFS3ERR_STALE)
	// The number of the other export in a handle makes it no handle of that export.
	forged := append(bytes.Clone(secret[:4]), root[4:8]...)
	forged = append(forged, secret[8:]...)
	stranger.want(1, argsFor(1, forged), nfsv3.NFS3ERR_BADHANDLE)
	// The parent of an export is not another export.
	for _, h := range [][]byte{root, private} {
		up, status := c.lookup(h, "..")
		if status != nfsv3.NFS3_OK || !bytes.Equal(up, h) {
			t.Errorf("\"..\": %v", status)
		}
	}
	// Names and files don't go from one export to another.
	c.want(14, &nfsv3.Rename3args{From: in(root, "f"), To: in(private, "f")}, nfsv3.NFS3ERR_XDEV)
	c.want(14, &nfsv3.Rename3args{From: in(private, "secret"), To: in(root, "secret")}, nfsv3.NFS3ERR_XDEV)
	c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(private, "f")}, nfsv3.NFS3ERR_XDEV)
	c.want(15, &nfsv3.Link3args{File: fhOf(secret), Link: in(root, "secret")}, nfsv3.NFS3ERR_XDEV)
	c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
}

// Exports must not overlap: a client could choose between their options.
func TestOverlappingExports(t *testing.T) {
	dir := tempDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	must(t, os.Symlink("a", filepath.Join(dir, "link")))
	before := openFiles(t)
	for _, paths := range [][2]string{{"a", "a"}, {"a", "a/b"}, {"a/b", "a"}, {"a", "link"}, {"link/b", "a"}} {
		cfg := Config{Export: Export{Path: filepath.Join(dir, paths[0])}, Exports: []Export{{Path: filepath.Join(dir, paths[1])}}}
		if s, err := New(cfg); err == nil {
			s.Close()
			t.Errorf("%v: no error", paths)
		} else if !strings.Contains(err.Error(), "overlaps with the export "+cfg.Path) {
			t.Errorf("%v: %v", paths, err)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

// What can't be configured is refused.
func TestBadExports(t *testing.T) {
	many := make([]netip.Prefix, MaxNetworks+1)
	for want, cfg := range map[string]Config{
		"an export has no path":             {Exports: []Export{{}}},
		"65 exports, at most 64":            {Exports: make([]Export, MaxExports+1)},
		"1025 networks of clients, at most": {Export: Export{Path: "/", Clients: []Client{{Networks: many}}}},
		"unknown squash 7":                  {Exports: []Export{{Path: "/", Clients: []Client{{Options: Options{Squash: 7}}}}}},
	} {
		if s, err := New(cfg); err == nil {
			s.Close()
			t.Errorf("%s: no error", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Squashed callers are the anonymous user of their network: new objects belong to it, and
// ACCESS tells its rights.
func TestRootSquashByNetwork(t *testing.T) {
	x := serve(t, options{}, func(c *Config) {
		c.Clients = []Client{
			network("192.0.2.1/32", Options{}),
			network("192.0.2.2/32", Options{Squash: SquashRoot, AnonUID: 4000, AnonGID: 4001}),
			network("192.0.2.3/32", Options{Squash: SquashAll, AnonUID: 5000, AnonGID: 5001}),
		}
	})
	must(t, os.Chmod(x.dir, 0o777))
	admin, user := x.as(0, 0), x.as(1000, 100)
	root := admin.root()
	owned := admin.mkfile(root, "of root")
	must(t, os.Chmod(x.path("of root"), 0o640))
	for i, tc := range []struct {
		c        *client
		uid, gid uint32
		access   uint32
	}{
		{admin, 0, 0, nfsv3.ACCESS3_READ | nfsv3.ACCESS3_MODIFY},
		{admin.from("192.0.2.2"), 4000, 4001, 0},
		{user.from("192.0.2.2"), 1000, 100, 0},
		{admin.from("192.0.2.3"), 5000, 5001, 0},
		{user.from("192.0.2.3"), 5000, 5001, 0},
	} {
		if a := tc.c.mustAttr(tc.c.mkfile(root, fmt.Sprint(i))); a.Uid != tc.uid || a.Gid != tc.gid {
			t.Errorf("%d: a new file of %d:%d, want %d:%d", i, a.Uid, a.Gid, tc.uid, tc.gid)
		}
		if got := tc.c.access(owned, nfsv3.ACCESS3_READ|nfsv3.ACCESS3_MODIFY); got != tc.access {
			t.Errorf("%d: ACCESS %#x, want %#x", i, got, tc.access)
		}
	}
}

// disk is a file system that can be mounted at the export, and taken away.
type disk struct {
	t         *testing.T
	at, store string
}

func newDisk(t *testing.T) *disk {
	d := &disk{t: t, at: filepath.Join(tempDir(t), "mnt"), store: filepath.Join(tempDir(t), "store")}
	for _, dir := range []string{d.at, d.store} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, unix.Mount("none", d.store, "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(d.store, unix.MNT_DETACH)) })
	return d
}

func (d *disk) mount() {
	d.t.Helper()
	must(d.t, unix.Mount(d.store, d.at, "", unix.MS_BIND, ""))
}

// unmount takes the file system away, though it is in use.
func (d *disk) unmount() {
	d.t.Helper()
	must(d.t, unix.Unmount(d.at, unix.MNT_DETACH))
}

func (x *export) check(want ExportState) {
	x.t.Helper()
	if got, message := x.server.Check(0); got != want || message == "" {
		x.t.Errorf("state %d (%s), want %d", got, message, want)
	}
}

// A file system that is unmounted under the server: with RequireMountpoint clients wait
// (NFS3ERR_JUKEBOX), without it their handles are stale. Both end when it is mounted again.
// MNT never mounts what is under the mount point.
func TestPrivilegedFileSystemGoesAway(t *testing.T) {
	for require, away := range map[bool]nfsv3.Nfsstat3{true: nfsv3.NFS3ERR_JUKEBOX, false: nfsv3.NFS3ERR_STALE} {
		t.Run(fmt.Sprint(require), func(t *testing.T) {
			d := newDisk(t)
			d.mount()
			_, add := also(t, "steady")
			x := serve(t, options{}, func(c *Config) { c.Path, c.RequireMountpoint = d.at, require }, add)
			defer x.Close()
			c := x.as(0, 0)
			root := c.root()
			steady := c.mustMount(x.cfg.Exports[0].Path)
			f := c.mkfile(root, "f")
			c.write(f, 0, []byte("data"), nfsv3.UNSTABLE)
			x.check(ExportServed)
			gone := ExportReplaced
			if require {
				gone = ExportNotMounted
			}
			for range 2 {
				d.unmount()
				x.check(gone)
				for proc := uint32(1); proc < procedureCount; proc++ {
					c.want(proc, argsFor(proc, f), away)
				}
				c.want(14, &nfsv3.Rename3args{From: in(root, "f"), To: in(root, "g")}, away)
				c.wantMount("/export", mount.MNT3ERR_NOENT)
				c.want(1, argsFor(1, steady), nfsv3.NFS3_OK)
				d.mount()
				x.check(ExportServed)
				if got, status := c.read(f, 0, 10); status != nfsv3.NFS3_OK || string(got.Data) != "data" {
					t.Errorf("READ after it came back: %v", status)
				}
			}
			// Another file system is not served in its place.
			d.unmount()
			must(t, unix.Mount("none", d.at, "tmpfs", 0, ""))
			x.check(ExportReplaced)
			c.want(1, argsFor(1, f), nfsv3.NFS3ERR_STALE)
			c.wantMount("/export", mount.MNT3ERR_NOENT)
			d.unmount()
			// MNT looks itself.
			d.mount()
			if !bytes.Equal(c.root(), root) {
				t.Error("another handle")
			}
			d.unmount()
			x.check(gone)
			if x.server.closing.Wait(); openFilesOf(t, d.store) {
				t.Error("files of the file system are still open")
			}
		})
	}
}

// openFilesOf reports whether this process has files of a file system open.
func openFilesOf(t *testing.T, dir string) bool {
	t.Helper()
	var want, st unix.Stat_t
	must(t, unix.Stat(dir, &want))
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, f := range files {
		if unix.Stat("/proc/self/fd/"+f.Name(), &st) == nil && st.Dev == want.Dev {
			return true
		}
	}
	return false
}

// Two exports whose roots are the same for the kernel, as those of all file systems ext4, have
// other handles.
func TestPrivilegedRootsThatLookTheSame(t *testing.T) {
	d := newDisk(t)
	d.mount()
	defer d.unmount()
	x := serve(t, options{}, func(c *Config) {
		c.Path, c.Exports = "", []Export{{Path: d.store}, {Path: d.at, Options: Options{ReadOnly: true}}}
	})
	defer x.Close()
	c := x.as(0, 0)
	a, b := c.mustMount(d.store), c.mustMount(d.at)
	if bytes.Equal(a, b) {
		t.Fatal("they have one handle")
	}
	c.mkfile(a, "f")
	c.want(8, argsFor(8, b), nfsv3.NFS3ERR_ROFS)
}

// A file system that is not mounted yet when the server starts is served as soon as it is.
// Clients that mounted it before wait.
func TestPrivilegedMountedLater(t *testing.T) {
	d := newDisk(t)
	d.mount()
	x := serve(t, options{}, func(c *Config) { c.Path, c.RequireMountpoint = d.at, true })
	c := x.as(0, 0)
	f := c.mkfile(c.root(), "f")
	d.unmount()
	x.restart()
	defer x.Close()
	x.check(ExportNotMounted)
	c.want(1, argsFor(1, f), nfsv3.NFS3ERR_JUKEBOX)
	c.wantMount("/export", mount.MNT3ERR_NOENT)
	d.mount()
	x.check(ExportServed)
	c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
	c.root()
	d.unmount()
	// Beside another export as well, though nobody knows to which export the handle belongs.
	_, add := also(t, "steady")
	add(&x.cfg)
	x.restart()
	c.want(1, argsFor(1, f), nfsv3.NFS3ERR_JUKEBOX)
}

// A directory that is renamed stays in service, as its file system is there.
func TestRenamedExportStaysInService(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	must(t, os.Rename(x.dir, x.dir+".away"))
	x.check(ExportMissing)
	c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
	must(t, os.Mkdir(x.dir, 0o755))
	x.check(ExportReplaced)
	c.want(1, argsFor(1, f), nfsv3.NFS3_OK)
	must(t, os.Remove(x.dir))
	must(t, os.Rename(x.dir+".away", x.dir))
	x.check(ExportServed)
}

// A directory that has taken the place of the export's is looked at again and again. Nothing is
// written to it, as it is not served.
func TestReplacedExportIsNotWritten(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Rename(x.dir, x.dir+".away"))
	must(t, os.Mkdir(x.dir, 0o755))
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must(t, err)
	defer unix.Close(watch)
	_, err = unix.InotifyAddWatch(watch, x.dir, unix.IN_CREATE|unix.IN_CLOSE_WRITE)
	must(t, err)
	x.check(ExportReplaced)
	if n, err := unix.Read(watch, make([]byte, 1<<10)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a file was made: %d bytes of events, %v", n, err)
	}
}

// A directory that is no mount point is not served, and a missing one is an error, with
// RequireMountpoint as without.
func TestMissingMountpoint(t *testing.T) {
	x := serve(t, options{})
	missing := Export{Path: x.dir + "/none", RequireMountpoint: true}
	if s, err := New(Config{Export: missing}); err == nil {
		s.Close()
		t.Error("a missing directory is served")
	}
	s, err := New(Config{Export: Export{Path: x.dir, RequireMountpoint: true}})
	must(t, err)
	defer s.Close()
	if state, _ := s.Check(0); state != ExportNotMounted || s.exports[0].tree.Load() != nil {
		t.Errorf("state %d", state)
	}
}

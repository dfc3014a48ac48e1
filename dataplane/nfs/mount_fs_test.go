package nfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// fileSystems are those that a test can mount without a disk.
var fileSystems = map[string]func(t *testing.T, dir string) (mountOptions string){
	"tmpfs": func(*testing.T, string) string { return "" },
	"overlay": func(t *testing.T, dir string) string {
		for _, d := range []string{"lower", "upper", "work"} {
			must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
		}
		must(t, os.WriteFile(filepath.Join(dir, "lower/old"), []byte("from below"), 0o644))
		return "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	},
}

// The whole of a file's life, on every file system at hand.
func TestPrivilegedFileSystems(t *testing.T) {
	for name, prepare := range fileSystems {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t)
			mnt := filepath.Join(dir, "mnt")
			must(t, os.Mkdir(mnt, 0o755))
			must(t, unix.Mount("none", mnt, name, 0, prepare(t, dir)))
			t.Cleanup(func() {
				if err := unix.Unmount(mnt, 0); err != nil {
					t.Errorf("unmount: %v", err)
				}
			})
			for _, opt := range []options{{}, {byName: true}} {
				fileLife(t, mnt, opt)
			}
		})
	}
}

func fileLife(t *testing.T, dir string, opt options) {
	x := serve(t, opt, func(c *Config) { c.Path = dir })
	defer x.Close() // before the file system goes
	x.dir = dir
	if x.volatile != strings.HasSuffix(t.Name(), "/tmpfs") {
		t.Errorf("in memory alone: %v", x.volatile)
	}
	c := x.as(0, 0)
	root := c.root()
	f := c.mkfile(root, "f")
	if old, status := c.lookup(root, "old"); status == nfsv3.NFS3_OK {
		// overlayfs copies this one up while the client has its handle.
		if _, status := c.write(old, 0, []byte("FROM"), nfsv3.UNSTABLE); status != nfsv3.NFS3_OK {
			t.Errorf("write to the old file: %v", status)
		}
		x.restart()
		if got, status := c.read(old, 0, 100); status != nfsv3.NFS3_OK || string(got.Data) != "FROM below" {
			t.Errorf("the old file: %v, %+v", status, got)
		}
	}
	for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.DATA_SYNC, nfsv3.FILE_SYNC} {
		if res, status := c.write(f, uint64(how), []byte("data"), how); status != nfsv3.NFS3_OK || res.Committed != how {
			t.Errorf("WRITE: %v %+v", status, res)
		}
	}
	c.want(21, argsFor(21, f), nfsv3.NFS3_OK)
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	must(t, os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "d/moved")))
	x.restart()
	if got, status := c.read(f, 0, 100); status != nfsv3.NFS3_OK || string(got.Data) != "dddata" {
		t.Errorf("after rename and restart: %v, %+v", status, got)
	}
	d := c.mustLookup(root, "d")
	for i := range 300 {
		c.mkfile(d, string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	seen := 0
	for cookie, verf := uint64(0), [8]byte{}; ; {
		p := c.readdirplus(d, cookie, verf, 700, 2000)
		for _, e := range p.entries {
			seen++
			cookie = e.cookie
			if seen%5 == 0 && !isDot([]byte(e.name)) {
				c.want(12, &nfsv3.Remove3args{Object: in(d, e.name)}, nfsv3.NFS3_OK)
			}
		}
		if verf = p.verf; p.eof || len(p.entries) == 0 {
			break
		}
	}
	if seen != 303 {
		t.Errorf("%d entries listed, want 303", seen)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "d")))
	c.want(1, argsFor(1, f), nfsv3.NFS3ERR_STALE)
	// New files, perhaps with old inode numbers, are not the old ones.
	for i := range 20 {
		c.mkfile(root, string(rune('a'+i)))
	}
	c.want(1, argsFor(1, f), nfsv3.NFS3ERR_STALE)
	c.want(1, argsFor(1, d), nfsv3.NFS3ERR_STALE)
	for i := range 20 {
		must(t, os.Remove(filepath.Join(dir, string(rune('a'+i)))))
	}
}

// The objects of an overlay on several file systems are on several devices.
func TestPrivilegedOverlayFileIDs(t *testing.T) {
	dir := tempDir(t)
	for _, layer := range []string{"lower", "upper", "mnt"} {
		must(t, os.Mkdir(filepath.Join(dir, layer), 0o755))
	}
	on := func(layer, fs, mountOptions string) {
		must(t, unix.Mount("none", filepath.Join(dir, layer), fs, 0, mountOptions))
		t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(dir, layer), 0)) })
	}
	on("lower", "tmpfs", "")
	on("upper", "tmpfs", "")
	for _, name := range []string{"lower/d", "lower/d/s", "upper/top", "upper/top/d", "upper/work"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"lower/a", "lower/d/b", "upper/top/c", "upper/top/d/e"} {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	on("mnt", "overlay", "xino=off,lowerdir="+dir+"/lower,upperdir="+dir+"/upper/top,workdir="+dir+"/upper/work")
	x := serve(t, options{}, func(c *Config) { c.Path = filepath.Join(dir, "mnt") })
	defer x.Close() // before the file systems go
	c := x.as(0, 0)
	root := c.root()
	c.sameFileIDs(root)
	c.sameFileIDs(c.mustLookup(root, "d"))
}

// Another file system within the export is not part of it.
func TestPrivilegedMountsAreNotCrossed(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		must(t, os.Mkdir(x.path("m"), 0o755))
		must(t, unix.Mount("none", x.path("m"), "tmpfs", 0, ""))
		defer func() { must(t, unix.Unmount(x.path("m"), 0)) }()
		must(t, os.WriteFile(x.path("m/secret"), nil, 0o644))
		c := x.as(0, 0)
		root := c.root()
		c.want(3, &nfsv3.Lookup3args{What: in(root, "m")}, nfsv3.NFS3ERR_ACCES)
		e, ok := c.list(root, true, 8192, nothing)["m"]
		if !ok || e.handle != nil || e.attr != nil {
			t.Errorf("%+v", e)
		}
		if _, status := c.mnt("/export/m"); status == 0 {
			t.Error("it can be mounted")
		}
		c.mkfile(root, "f")
		c.want(14, &nfsv3.Rename3args{From: in(root, "f"), To: in(root, "m")}, nfsv3.NFS3ERR_ISDIR)
	})
}

// A full disk is told as such; a write that was to be stable and failed makes
// clients write again what they have not committed.
func TestPrivilegedFullDisk(t *testing.T) {
	dir := tempDir(t)
	must(t, unix.Mount("none", dir, "tmpfs", 0, "size=64k"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, 0)) })
	x := serve(t, options{}, func(c *Config) { c.Path = dir })
	x.volatile = false
	defer x.Close()
	c := x.as(0, 0)
	f := c.mkfile(c.root(), "f")
	res, status := c.write(f, 0, make([]byte, 100<<10), nfsv3.UNSTABLE)
	if status != nfsv3.NFS3_OK || res.Count == 0 || res.Count > 64<<10 {
		t.Fatalf("%v %+v", status, res)
	}
	verf := res.Verf
	if _, status := c.write(f, 1<<20, []byte("x"), nfsv3.UNSTABLE); status != nfsv3.NFS3ERR_NOSPC {
		t.Errorf("UNSTABLE: %v", status)
	}
	if res, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); res.Verf != verf {
		t.Error("the verifier changed, though nothing that was written is lost")
	}
	if _, status := c.write(f, 1<<20, []byte("x"), nfsv3.FILE_SYNC); status != nfsv3.NFS3ERR_NOSPC {
		t.Errorf("FILE_SYNC: %v", status)
	}
	res, _ = c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	if res.Verf == verf {
		t.Error("the verifier stayed")
	}
	verf = res.Verf
	for range 3 {
		if _, status := c.write(f, 1<<20, []byte("x"), nfsv3.FILE_SYNC); status != nfsv3.NFS3ERR_NOSPC {
			t.Errorf("FILE_SYNC again: %v", status)
		}
	}
	if res, status := c.write(f, 0, []byte("xy"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK || res.Count != 2 {
		t.Errorf("FILE_SYNC where there is space: %v %+v", status, res)
	}
	if res, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); res.Verf != verf {
		t.Error("each write that is refused changes the verifier")
	}
	x.epoch.Add(fullTicks)
	c.write(f, 1<<20, []byte("x"), nfsv3.FILE_SYNC)
	if res, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); res.Verf == verf {
		t.Error("much later, the verifier stayed")
	}
}

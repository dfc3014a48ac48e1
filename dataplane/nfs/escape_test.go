package nfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// Symbolic links are objects and never ways, wherever they lead to.
func TestLinksAreNotFollowed(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		outside := tempDir(t)
		must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
		must(t, os.Symlink(outside, x.path("out")))
		must(t, os.Symlink(filepath.Join(outside, "secret"), x.path("file")))
		must(t, os.Symlink("/proc/self/cwd", x.path("magic")))
		must(t, os.Symlink("..", x.path("up")))
		must(t, os.Symlink(".", x.path("here")))
		c := x.me()
		root := c.root()
		for _, name := range []string{"out", "file", "magic", "up", "here"} {
			h := c.mustLookup(root, name)
			if a := c.mustAttr(h); a.Type != nfsv3.NF3LNK {
				t.Fatalf("%s is a %v", name, a.Type)
			}
			for _, proc := range []uint32{3, 8, 9, 10, 11, 12, 13, 16, 17} {
				c.want(proc, argsFor(proc, h), nfsv3.NFS3ERR_NOTDIR)
			}
			for _, proc := range []uint32{6, 7, 21} {
				c.want(proc, argsFor(proc, h), nfsv3.NFS3ERR_INVAL)
			}
			if _, status := c.create(root, name, &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)}); status != nfsv3.NFS3ERR_EXIST {
				t.Errorf("CREATE over %s: %v", name, status)
			}
			if _, status := c.mnt("/export/" + name); status == 0 {
				t.Errorf("%s can be mounted", name)
			}
		}
		if data, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(data) != "secret" {
			t.Errorf("outside: %q, %v", data, err)
		}
	})
}

// A directory that is moved out of the export is out of reach at once, with
// all that is in it; moved back it is there again.
func TestMovedOutIsGone(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		outside := tempDir(t)
		c := x.me()
		root := c.root()
		d := c.mkdir(root, "d")
		deep := c.mkdir(c.mkdir(d, "e"), "f")
		file := c.mkfile(root, "file")
		must(t, os.Rename(x.path("d"), filepath.Join(outside, "d")))
		for _, h := range [][]byte{d, deep} {
			for _, proc := range []uint32{3, 8, 9, 10, 11, 12, 13, 14, 16, 17} {
				c.want(proc, argsFor(proc, h), nfsv3.NFS3ERR_STALE)
			}
			c.want(14, &nfsv3.Rename3args{From: in(root, "file"), To: in(h, "file")}, nfsv3.NFS3ERR_STALE)
			c.want(15, &nfsv3.Link3args{File: fhOf(file), Link: in(h, "file")}, nfsv3.NFS3ERR_STALE)
		}
		if left, err := os.ReadDir(filepath.Join(outside, "d/e/f")); err != nil || len(left) != 0 {
			t.Errorf("outside: %v, %v", left, err)
		}
		// A file goes out with the next look at it.
		must(t, os.Rename(x.path("file"), filepath.Join(outside, "file")))
		x.epoch.Add(1)
		c.want(6, argsFor(6, file), nfsv3.NFS3ERR_STALE)
		c.want(7, argsFor(7, file), nfsv3.NFS3ERR_STALE)
	})
}

// A directory that somebody moves to other levels of the export, again and again, is in it all the
// time.
func TestMovedWithinIsStillIn(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		must(t, os.MkdirAll(x.path("a/b/c"), 0o755))
		c := x.me()
		d := c.mkdir(c.root(), "d")
		c.mkfile(d, "name")
		var done atomic.Bool
		var mover sync.WaitGroup
		mover.Go(func() {
			for !done.Load() {
				_ = os.Rename(x.path("d"), x.path("a/b/c/d"))
				_ = os.Rename(x.path("a/b/c/d"), x.path("d"))
			}
		})
		for range 1000 {
			c.want(3, argsFor(3, d), nfsv3.NFS3_OK)
			c.want(3, &nfsv3.Lookup3args{What: in(d, "..")}, nfsv3.NFS3_OK)
		}
		done.Store(true)
		mover.Wait()
	})
}

// A file with a name outside stays one of the export.
func TestLinkedOutIsStillIn(t *testing.T) {
	x := serve(t, options{})
	outside := tempDir(t)
	c := x.me()
	f := c.mkfile(c.root(), "f")
	must(t, os.Link(x.path("f"), filepath.Join(outside, "f")))
	x.restart()
	c.want(6, argsFor(6, f), nfsv3.NFS3_OK)
	must(t, os.Remove(filepath.Join(outside, "f")))
	x.epoch.Add(1)
	c.want(6, argsFor(6, f), nfsv3.NFS3_OK)
}

// below finds the way up from any depth.
func TestBelowIsDeep(t *testing.T) {
	x := serve(t, options{})
	fd, err := unix.Open(x.dir, unix.O_PATH, 0)
	must(t, err)
	const depth = 300 // more than is looked up at once, twice
	for i := range depth {
		must(t, unix.Mkdirat(fd, "d", 0o755))
		next, err := unix.Openat(fd, "d", unix.O_PATH|unix.O_NOFOLLOW, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
		if i%50 != 0 && i != depth-1 {
			continue
		}
		if ok, err := below(fd, &x.place); !ok || err != nil {
			t.Fatalf("depth %d: %v, %v", i+1, ok, err)
		}
	}
	unix.Close(fd)
	out, err := unix.Open(filepath.Dir(x.dir), unix.O_PATH, 0)
	must(t, err)
	defer unix.Close(out)
	if ok, err := below(out, &x.place); ok || err != nil {
		t.Errorf("the parent: %v, %v", ok, err)
	}
}

// Somebody swaps a directory of the export for a link to the outside, again
// and again, while calls with that name and its handle are made. Nothing
// outside may change, and nothing of it be seen.
func TestRacingSwapCantLeadOut(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		outside := tempDir(t)
		must(t, os.WriteFile(filepath.Join(outside, "victim"), []byte("untouched"), 0o644))
		must(t, os.Mkdir(filepath.Join(outside, "sub"), 0o755))
		must(t, os.Mkdir(x.path("d"), 0o755))
		must(t, os.WriteFile(x.path("d/victim"), []byte("inside"), 0o644))
		must(t, os.Symlink(outside, x.path("l")))
		var before unix.Stat_t
		must(t, unix.Stat(filepath.Join(outside, "victim"), &before))

		stop := swap(t, x.path("d"), x.path("l"))
		c := x.me()
		root := c.root()
		rounds := 300
		if testing.Short() {
			rounds = 60
		}
		for i := range rounds {
			h, status := c.lookup(root, "d")
			if status != nfsv3.NFS3_OK {
				continue
			}
			if f, status := c.lookup(h, "victim"); status == nfsv3.NFS3_OK {
				if a := c.mustAttr(f); a.Fileid == before.Ino {
					t.Fatal("the outside was seen")
				}
				c.write(f, 0, []byte("INSIDE"), nfsv3.UNSTABLE)
				c.setattr(f, withMode(0o600), noGuard())
			}
			c.create(h, fmt.Sprint("new", i), &nfsv3.Createhow3_UNCHECKED{ObjAttributes: noChange()})
			c.status(12, &nfsv3.Remove3args{Object: in(h, fmt.Sprint("new", i))})
			c.status(9, &nfsv3.Mkdir3args{Where: in(h, "sub"), Attributes: noChange()})
			c.status(13, &nfsv3.Rmdir3args{Object: in(h, "sub")})
			c.status(17, &nfsv3.Readdirplus3args{Dir: fhOf(h), Dircount: 4096, Maxcount: 8192})
			c.status(2, &nfsv3.Setattr3args{Object: fhOf(h), NewAttributes: withMode(0o755), Guard: noGuard()})
			c.mnt("/export/d")
		}
		stop()

		var after unix.Stat_t
		must(t, unix.Stat(filepath.Join(outside, "victim"), &after))
		if data, _ := os.ReadFile(filepath.Join(outside, "victim")); string(data) != "untouched" || after.Ctim != before.Ctim {
			t.Errorf("outside changed: %q", data)
		}
		if names, _ := os.ReadDir(outside); len(names) != 2 {
			t.Errorf("outside: %v", names)
		}
	})
}

// swap exchanges two names until it is told to stop.
func swap(t *testing.T, a, b string) (stop func()) {
	t.Helper()
	var done atomic.Bool
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
			if i == 0 {
				close(started)
			}
		}
	})
	<-started
	return func() {
		done.Store(true)
		wg.Wait()
	}
}

// The export's own root directory can be moved: it is the same one.
func TestExportMoves(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	must(t, os.Rename(x.dir, x.dir+"2"))
	x.epoch.Add(1)
	c.want(6, argsFor(6, f), nfsv3.NFS3_OK)
	if h := c.mustLookup(root, "f"); string(h) != string(f) {
		t.Error("another handle")
	}
	must(t, os.Rename(x.dir+"2", x.dir))
}

// TestPathWhileTheExportMoves: no file passes for one that was moved out because somebody renames a
// directory above the export at this moment.
func TestPathWhileTheExportMoves(t *testing.T) {
	above := filepath.Join(tempDir(t), "0")
	must(t, os.Mkdir(above, 0o755))
	x := serveIn(t, above, options{})
	defer x.Close()
	o, err := x.object(x.me().mkfile(x.me().root(), "f"))
	must(t, err)
	defer o.release()
	var moves sync.WaitGroup
	defer moves.Wait()
	var moved atomic.Bool
	moves.Go(func() {
		defer moved.Store(true)
		from := above
		for i := range 2000 {
			to := filepath.Join(filepath.Dir(above), fmt.Sprint(i+1))
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
			}
			from = to
		}
	})
	for !moved.Load() {
		if !x.pathInside(o.path) {
			t.Fatal("the file is outside")
		}
	}
}

// TestPathWhileADirectoryIsAway: nor when the directory gets its old name back at once, again and again.
func TestPathWhileADirectoryIsAway(t *testing.T) {
	above := filepath.Join(tempDir(t), "here")
	must(t, os.Mkdir(above, 0o755))
	x := serveIn(t, above, options{})
	defer x.Close()
	o, err := x.object(x.me().mkfile(x.me().root(), "f"))
	must(t, err)
	defer o.release()
	var moves sync.WaitGroup
	defer moves.Wait()
	var over atomic.Bool
	defer over.Store(true)
	moves.Go(func() {
		away := filepath.Join(filepath.Dir(above), "away")
		for !over.Load() {
			if err := errors.Join(unix.Rename(above, away), unix.Rename(away, above)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 50_000 {
		if !x.pathInside(o.path) {
			t.Fatal("the file is outside")
		}
	}
}

// Clients could read a key within the export.
func TestStateMustNotBeExported(t *testing.T) {
	dir := tempDir(t)
	for _, state := range []string{dir, filepath.Join(dir, "state"), filepath.Join(dir, "a/b")} {
		s, err := New(Config{Export: Export{Path: dir}, StateDir: state})
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", state)
		}
	}
	if keys, _ := filepath.Glob(filepath.Join(dir, "*/*key*")); len(keys) != 0 {
		t.Errorf("keys were made: %v", keys)
	}
}

// Going up ends at the export, even when a directory is moved out just then.
func TestGoingUpEndsAtTheRoot(t *testing.T) {
	x := serve(t, options{})
	before := openFiles(t)
	fd, err := unix.Open(filepath.Dir(x.dir), unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	var st unix.Stat_t
	if o, err := x.ancestor(fd, &st); !errors.Is(err, errStale) {
		o.release()
		t.Errorf("the export's parent: %v", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

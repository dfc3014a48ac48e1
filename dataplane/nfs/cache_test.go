package nfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// The number of open descriptors is bounded, and what was closed is opened
// again when needed.
func TestCacheIsBounded(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		const limit = 40
		x := serve(t, opt, func(c *Config) { c.MaxOpenFiles = limit })
		c := x.me()
		root := c.root()
		var files [][]byte
		for i := range 80 {
			f := c.mkfile(root, fmt.Sprint("f", i))
			c.write(f, 0, []byte{byte(i)}, nfsv3.UNSTABLE)
			files = append(files, f)
			if n := x.cache.files.Load(); n > limit+2 {
				t.Fatalf("%d descriptors open, %d allowed", n, limit)
			}
		}
		for i, f := range files {
			if got, status := c.read(f, 0, 10); status != nfsv3.NFS3_OK || len(got.Data) != 1 || got.Data[0] != byte(i) {
				t.Fatalf("file %d: %v, %+v", i, status, got)
			}
			if n := x.cache.files.Load(); n > limit+2 {
				t.Fatalf("%d descriptors open, %d allowed", n, limit)
			}
		}
	})
}

// holding returns a function that keeps an object in use, and one that ends the use of all.
func (x *export) holding(t *testing.T) (hold func(f []byte), release func()) {
	var held []*object
	hold = func(f []byte) {
		t.Helper()
		o, err := x.object(f)
		must(t, err)
		held = append(held, o)
	}
	return hold, func() {
		for _, o := range held {
			o.release()
		}
	}
}

// With all descriptors in use by calls, a call that needs more is answered
// JUKEBOX before it has changed anything; the others go on.
func TestCacheInUse(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		const limit = minFiles
		x := serve(t, opt, func(c *Config) { c.MaxOpenFiles = limit })
		c := x.me()
		root := c.root()
		hold, release := x.holding(t)
		files := [][]byte{c.mkfile(root, "first"), c.mkfile(root, "last")}
		hold(files[0])
		for i := range limit - 2 { // the root is open, too
			hold(c.mkfile(root, fmt.Sprint("f", i)))
		}
		for range 3 {
			c.want(3, &nfsv3.Lookup3args{What: in(root, "last")}, nfsv3.NFS3ERR_JUKEBOX)
			c.want(1, argsFor(1, files[1]), nfsv3.NFS3ERR_JUKEBOX)
			c.want(8, &nfsv3.Create3args{Where: in(root, "new"), How: &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)}}, nfsv3.NFS3ERR_JUKEBOX)
			c.want(9, &nfsv3.Mkdir3args{Where: in(root, "new"), Attributes: withMode(0o755)}, nfsv3.NFS3ERR_JUKEBOX)
			c.want(1, argsFor(1, files[0]), nfsv3.NFS3_OK)
		}
		if n := x.cache.files.Load(); n != limit {
			t.Errorf("%d descriptors open, %d allowed", n, limit)
		}
		x.server.SetMaxOpenFiles(limit + 2)
		c.want(3, &nfsv3.Lookup3args{What: in(root, "new")}, nfsv3.NFS3ERR_NOENT)
		c.want(3, &nfsv3.Lookup3args{What: in(root, "last")}, nfsv3.NFS3_OK)
		x.server.SetMaxOpenFiles(limit)
		x.tidy()
		if n := x.cache.files.Load(); n != limit {
			t.Errorf("%d descriptors open, %d allowed", n, limit)
		}
		release()
		c.want(9, &nfsv3.Mkdir3args{Where: in(root, "new"), Attributes: withMode(0o755)}, nfsv3.NFS3_OK)
	})
}

// A lower limit closes no file by itself, because that may hang, as with a FUSE file system or a file
// server that is away: the control plane waits for it.
func TestLowerLimitClosesNothingItself(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.IdleClose = time.Hour }) // the test tidies up
	c := x.me()
	root := c.root()
	for i := range 2 * minFiles {
		c.write(c.mkfile(root, fmt.Sprint("f", i)), 0, []byte("x"), nfsv3.FILE_SYNC)
	}
	before := x.cache.files.Load()
	x.server.SetMaxOpenFiles(minFiles)
	if n := x.cache.files.Load(); n != before {
		t.Errorf("%d descriptors open, %d before: it closes files", n, before)
	}
	if x.tidy(); x.cache.files.Load() > minFiles {
		t.Errorf("%d descriptors open, %d allowed", x.cache.files.Load(), minFiles)
	}
}

// A change of names that was carried out is not answered JUKEBOX because there is no descriptor
// to bring it to the disk: the client would try again, and get NOENT or EXIST.
func TestChangesWithoutADescriptor(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		const limit = minFiles
		x := serve(t, opt, func(c *Config) { c.MaxOpenFiles = limit })
		c := x.me()
		root := c.root()
		hold, release := x.holding(t)
		hold(c.mkdir(root, "d"))
		for i := range limit - 3 { // the root and the new file are open, too
			hold(c.mkfile(root, fmt.Sprint("f", i)))
		}
		x.asyncMetadata, x.volatile = false, false
		f := c.mkfile(root, "new")
		hold(f)
		c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(root, "link")}, nfsv3.NFS3_OK)
		c.want(14, &nfsv3.Rename3args{From: in(root, "link"), To: in(root, "link2")}, nfsv3.NFS3_OK)
		c.want(12, &nfsv3.Remove3args{Object: in(root, "link2")}, nfsv3.NFS3_OK)
		c.want(13, &nfsv3.Rmdir3args{Object: in(root, "d")}, nfsv3.NFS3_OK)
		release()
	})
}

// The least recently used object goes first, and none in use.
func TestCacheOrder(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	sh := x.cache.shard(&o.id)
	all := func(*object) bool { return true }
	for victim := sh.unused(all); victim != nil; victim = sh.unused(all) {
		if victim == o {
			t.Fatal("an object in use was evicted")
		}
		victim.flushAndRelease()
	}
	if sh.objects[o.id] != o {
		t.Error("the object in use is not there any more")
	}
}

// A name that goes takes an object along that nobody uses; one that has another
// name stays when it is in use, or has data that is to reach the disk.
func TestForgetGone(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for _, tc := range []struct {
		name               string
		linked, used, data bool
		stays              bool
	}{
		{name: "gone"}, {name: "gone and used", used: true}, {name: "gone with data", data: true},
		{name: "linked", linked: true}, {name: "linked and used", linked: true, used: true, stays: true},
		{name: "linked with data", linked: true, data: true, stays: true},
	} {
		f := c.mkfile(root, tc.name)
		if tc.linked {
			must(t, os.Link(x.path(tc.name), x.path(tc.name+" 2")))
		}
		if tc.data {
			c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
		}
		o, err := x.object(f)
		must(t, err)
		if !tc.used {
			o.release()
		}
		c.want(12, &nfsv3.Remove3args{Object: in(root, tc.name)}, nfsv3.NFS3_OK)
		again := x.cache.find(&o.id, 0)
		if (again != nil) != tc.stays {
			t.Errorf("%s: in the cache: %v", tc.name, again != nil)
		}
		again.release()
		if tc.used {
			o.release()
		}
		want := nfsv3.NFS3ERR_STALE
		if tc.linked {
			want = nfsv3.NFS3_OK
		}
		c.want(1, argsFor(1, f), want)
	}
}

// Unused files are closed after a while, used ones are not.
func TestIdleFilesAreClosed(t *testing.T) {
	base := tempDir(t)
	synctest.Test(t, func(t *testing.T) {
		x := serveIn(t, base, options{}, func(c *Config) { c.IdleClose = 8 * time.Second })
		defer x.Close()
		c := x.me()
		root := c.root()
		c.mkfile(root, "idle")
		busy := c.mkfile(root, "busy")
		before := x.cache.files.Load()
		for range 7 {
			time.Sleep(time.Second)
			synctest.Wait()
			c.want(1, argsFor(1, busy), nfsv3.NFS3_OK)
		}
		if n := x.cache.files.Load(); n != before {
			t.Fatalf("%d files open before the time, %d at first", n, before)
		}
		for range 4 {
			time.Sleep(time.Second)
			synctest.Wait()
			c.want(1, argsFor(1, busy), nfsv3.NFS3_OK)
		}
		if n := x.cache.files.Load(); n != before-1 {
			t.Errorf("%d files open, %d at first: the idle one should be closed", n, before)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := x.cache.files.Load(); n != 1 {
			t.Errorf("%d files open after a minute, want the root alone", n)
		}
	})
}

// Many clients at once on few objects, with a cache that is too small.
func TestConcurrentUse(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt, func(c *Config) { c.MaxOpenFiles = 48 }) // eight calls need 41
		root := x.me().root()
		rounds := 60
		if testing.Short() {
			rounds = 20
		}
		var wg sync.WaitGroup
		for g := range 8 {
			c := x.me()
			wg.Go(func() { churn(t, c, root, g, rounds) })
		}
		wg.Wait()
		if left, err := os.ReadDir(x.dir); err != nil || len(left) != 0 {
			t.Errorf("%d names are left, %v", len(left), err)
		}
	})
}

// churn makes, writes, renames, lists and removes a directory and its files.
func churn(t *testing.T, c *client, root []byte, g, rounds int) {
	name := fmt.Sprint("dir", g)
	for i := range rounds {
		d := c.mkdir(root, name)
		f := c.mkfile(d, "f")
		data := []byte(fmt.Sprint(g, i))
		if _, status := c.write(f, 0, data, nfsv3.UNSTABLE); status != nfsv3.NFS3_OK {
			t.Errorf("WRITE: %v", status)
		}
		c.want(14, &nfsv3.Rename3args{From: in(d, "f"), To: in(root, name+"f")}, nfsv3.NFS3_OK)
		if got, status := c.read(f, 0, 100); status != nfsv3.NFS3_OK || string(got.Data) != string(data) {
			t.Errorf("READ: %v", status)
		}
		if p := c.readdirplus(root, 0, [8]byte{}, 8192, 8192); p.status != nfsv3.NFS3_OK {
			t.Errorf("READDIRPLUS: %v", p.status)
		}
		c.want(12, &nfsv3.Remove3args{Object: in(root, name+"f")}, nfsv3.NFS3_OK)
		c.want(1, argsFor(1, f), nfsv3.NFS3ERR_STALE)
		c.want(13, &nfsv3.Rmdir3args{Object: in(root, name)}, nfsv3.NFS3_OK)
	}
}

// stuckMemory gives a buffer when it is told to.
type stuckMemory struct {
	asked, give chan struct{}
	fixedMemory
}

func (m *stuckMemory) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	close(m.asked)
	<-m.give
	return m.fixedMemory.Alloc(ctx, n)
}

// Close waits for calls that run; later ones are refused.
func TestClose(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	c.write(f, 0, []byte("content"), nfsv3.UNSTABLE)
	p := prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(f), Count: 7})
	mem := &stuckMemory{make(chan struct{}), make(chan struct{}), fixedMemory{make(fixedBuffer, 7)}}
	p.reply.Mem = mem
	read, closed := make(chan struct{}), make(chan struct{})
	go func() { defer close(read); p.do(t) }()
	<-mem.asked
	go func() { defer close(closed); must(t, x.Close()) }()
	<-x.ctx.Done()
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(mem.give)
	<-read
	<-closed
	must(t, x.Close())
	if string(mem.b) != "content" {
		t.Errorf("read %q", mem.b)
	}
	if _, err := c.raw(Program, Version, 0, 1, payload(root, "")); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}

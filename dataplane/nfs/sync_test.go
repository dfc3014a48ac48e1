package nfs

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// The write verifier stays while data is safe, and changes with the server and
// with an error that may have lost data.
func TestWriteVerifier(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	commit := func() [8]byte {
		t.Helper()
		r := c.nfs(21, &nfsv3.Commit3args{File: fhOf(f)})
		res, ok := decoded(c, r, nfsv3.ReadCommit3res).(*nfsv3.Commit3res_NFS3_OK)
		if !ok {
			t.Fatal("COMMIT failed")
		}
		return res.Resok.Verf
	}
	a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	b, _ := c.write(f, 1, []byte("y"), nfsv3.FILE_SYNC)
	if a.Verf != b.Verf || a.Verf != commit() {
		t.Error("the verifier changed without a reason")
	}
	o, err := x.object(f)
	must(t, err)
	x.lost(o, nil, unix.EIO)
	o.release()
	if commit() == a.Verf {
		t.Error("the verifier is the same after an error")
	}
	x.restart()
	if commit() == a.Verf {
		t.Error("the verifier is the same after a restart")
	}
}

// A stable WRITE that the file system refuses, as the file would get too large for it, loses
// nothing. Otherwise each one would make all clients of the export write again, and others of the
// file would fail with it.
func TestTooLargeWritesKeepTheVerifier(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	began := o.syncs.now()
	for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.DATA_SYNC, nfsv3.FILE_SYNC} {
		// Some file systems take even this.
		if _, status := c.write(f, 1<<63-2, []byte("x"), how); status != nfsv3.NFS3ERR_FBIG && status != nfsv3.NFS3_OK {
			t.Errorf("%v: %v", how, nfsv3.Nfsstat3_name[status])
		}
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf != was.Verf {
		t.Error("the verifier changed")
	}
	if err := o.syncs.since(began); err != nil {
		t.Errorf("a stable WRITE of the file at the same time: %v", err)
	}
}

// A stable WRITE of which the file system takes nothing syncs nothing, so it loses nothing.
func TestWriteOfNothingKeepsTheVerifier(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	if err := x.lostBy(o, nil, int(o.write.Load()), 1, posix.ErrNothing); err != nil {
		t.Errorf("others get %v", err)
	}
	if status, known := statusOf(posix.ErrNothing); status != nfsv3.NFS3ERR_IO || !known {
		t.Errorf("its client gets %v, known: %v", status, known)
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf != was.Verf {
		t.Error("the verifier changed")
	}
}

// EFBIG at a position that the file may have is an error of the sync: others must learn of it.
func TestTooLargeAtSync(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	fd := int(o.write.Load())
	if err := x.lostBy(o, nil, fd, 1<<63-1, unix.EFBIG); err != nil {
		t.Errorf("beyond what a file may have: %v", err)
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf != was.Verf || x.lacksSpace() {
		t.Error("beyond what a file may have, the verifier changed")
	}
	if err := x.lostBy(o, nil, fd, 4096, unix.EFBIG); !errors.Is(err, unix.EFBIG) {
		t.Errorf("others do not learn of the error: %v", err)
	}
	if now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE); now.Verf == was.Verf || !x.lacksSpace() {
		t.Error("the verifier stayed")
	}
}

// On a mount of another NFS server, the error of a WRITE may be that of data that was written earlier.
func TestErrorsOfEarlierData(t *testing.T) {
	for _, onNFS := range []bool{false, true} {
		x := serve(t, options{})
		x.onNFS, x.maxFile = onNFS, 1<<63-1
		c := x.me()
		f := c.mkfile(c.root(), "f")
		for _, how := range []nfsv3.StableHow{nfsv3.UNSTABLE, nfsv3.FILE_SYNC} {
			x.full.Store(uint64(x.epoch.Load()) + 1) // the file was written and synced in two steps
			was, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
			_, status := c.write(f, 1<<63-2, []byte("x"), how)
			now, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
			// Some file systems take even this.
			if changed := now.Verf != was.Verf; changed != (onNFS && status != nfsv3.NFS3_OK) {
				t.Errorf("on NFS %v, %v: %v, the verifier changed: %v", onNFS, how, nfsv3.Nfsstat3_name[status], changed)
			}
		}
	}
}

// UNSTABLE data goes to the disk before its file is closed in favour of
// other files.
func TestDirtyFilesAreFlushed(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	if !o.dirty.Load() {
		t.Fatal("not dirty after an UNSTABLE write")
	}
	o.refs.Add(1)
	o.flushAndRelease()
	if o.dirty.Load() {
		t.Error("dirty after it was flushed")
	}
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	c.want(21, &nfsv3.Commit3args{File: fhOf(f), Offset: 5, Count: 1}, nfsv3.NFS3_OK)
	if o.dirty.Load() {
		t.Error("dirty after COMMIT")
	}
}

// brokenFD gives the file a descriptor that fsync(2) refuses, as it would after an error of the
// disk.
func (x *export) brokenFD(h []byte) {
	x.t.Helper()
	o, err := x.object(h)
	must(x.t, err)
	defer o.release()
	var pipe [2]int
	must(x.t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	must(x.t, unix.Close(pipe[1]))
	o.read.Store(int32(pipe[0]))
	x.cache.files.Add(1)
	if fd := int(o.write.Load()); fd >= 0 {
		if o.write.Store(int32(pipe[0])); fd != o.path {
			o.closeFD(fd)
		}
	}
	x.volatile = false
}

// An fsync for attributes may be the one that gets the error of data. Then clients write again,
// because the next fsync succeeds.
func TestWriteVerifierAfterSetattr(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	c := x.me()
	f := c.mkfile(c.root(), "f")
	a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	x.brokenFD(f)
	if status, _ := c.setattr(f, withMode(0o600), noGuard()); status == nfsv3.NFS3_OK {
		t.Error("SETATTR: the error is hidden")
	}
	if before := binary.BigEndian.Uint64(a.Verf[:]); x.verifier.Load() == before {
		t.Error("the verifier is the same after an error")
	}
}

// While one sync of a file runs, calls that come wait for the next one, which is for all of
// them. An error of the one that runs may be of data that they have written: stable WRITEs get it,
// and COMMIT answers with the verifier that it has renewed.
func TestSyncsAreShared(t *testing.T) {
	for _, failed := range []error{nil, unix.EIO} {
		x := serve(t, options{})
		x.volatile = false
		c := x.me()
		f := c.mkfile(c.root(), "f")
		a, _ := c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
		o, err := x.object(f)
		must(t, err)
		const calls = 20
		if !o.syncs.alone(&x.export.syncs) { // one that this test makes
			t.Fatal("a sync runs before any call")
		}
		first := o.syncs.begun
		writes := make(chan nfsv3.Nfsstat3, calls)
		for i := range calls {
			go func() {
				how := nfsv3.DATA_SYNC
				if i%2 == 0 {
					how = nfsv3.FILE_SYNC
				}
				_, status := c.write(f, uint64(i), []byte("y"), how)
				writes <- status
			}()
		}
		committed := make(chan nfsv3.Commit3res, 1)
		go func() {
			committed <- decoded(c, c.nfs(21, &nfsv3.Commit3args{File: fhOf(f)}), nfsv3.ReadCommit3res)
		}()
		o.gather(1 + calls + 1)
		if n := len(writes) + len(committed); n > 0 {
			t.Errorf("%d calls were answered before their data was on the disk", n)
		}
		if failed != nil {
			x.lost(o, nil, failed)
		}
		o.syncs.end(&x.export.syncs, failed)
		want := nfsv3.NFS3_OK
		if failed != nil {
			want = nfsv3.NFS3ERR_IO
		}
		for range calls {
			if status := <-writes; status != want {
				t.Errorf("after %v, a stable WRITE got %v, want %v", failed, status, want)
			}
		}
		if res, ok := (<-committed).(*nfsv3.Commit3res_NFS3_OK); !ok || (res.Resok.Verf == a.Verf) == (failed != nil) {
			t.Errorf("after %v, COMMIT answered %+v, with verifier %v before", failed, res, a.Verf)
		}
		if o.syncs.begun != first+1 || o.syncs.done != first+1 || o.syncs.full != first+1 || o.syncs.waiting != 0 {
			t.Errorf("%+v, want number %d for all calls", &o.syncs, first+1)
		}
		if _, status := c.write(f, 0, []byte("z"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK {
			t.Errorf("after %v, a later WRITE got %v", failed, status)
		}
		o.release()
	}
}

// A stable WRITE on a mount of another NFS server is to be sent again if another WRITE of the file got an
// error before the sync.
func TestErrorBeforeSync(t *testing.T) {
	x := serve(t, options{})
	x.volatile, x.onNFS = false, true
	c := x.me()
	f := c.mkfile(c.root(), "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	if !o.syncs.alone(&x.export.syncs) { // one that this test makes
		t.Fatal("a sync runs before any call")
	}
	got := make(chan nfsv3.Nfsstat3, 1)
	go func() {
		_, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC)
		got <- status
	}()
	o.gather(2)
	x.refused(o, nil, false, unix.ENOSPC)
	o.syncs.end(&x.export.syncs, nil)
	if status := <-got; status != nfsv3.NFS3ERR_JUKEBOX {
		t.Errorf("%v", nfsv3.Nfsstat3_name[status])
	}
	if _, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK {
		t.Errorf("again: %v", nfsv3.Nfsstat3_name[status])
	}
}

// gather waits until n calls are in sync.
func (o *object) gather(n int) {
	for {
		o.syncs.mu.Lock()
		waiting := o.syncs.waiting
		o.syncs.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// fill lets no more syncs run. The returned function lets them run again.
func (p *pace) fill() (empty func()) {
	for range cap(p.fast) {
		p.fast <- struct{}{}
	}
	for range cap(p.slow) {
		p.slow <- struct{}{}
	}
	return func() {
		for range cap(p.slow) {
			<-p.slow
		}
		for range cap(p.fast) {
			<-p.fast
		}
	}
}

// All calls that waited for a sync get its error.
func TestErrorOfASharedSync(t *testing.T) {
	x := serve(t, options{})
	x.volatile = false
	c := x.me()
	f := c.mkfile(c.root(), "f")
	a, _ := c.write(f, 0, []byte("x"), nfsv3.FILE_SYNC)
	o, err := x.object(f)
	must(t, err)
	defer o.release()
	empty := x.export.syncs.fill()
	begun := o.syncs.begun
	broken := make(chan error, 20)
	for range cap(broken) {
		go func() { broken <- o.sync(nil, -1, true) }()
	}
	o.gather(cap(broken))
	empty()
	for range cap(broken) {
		if err := <-broken; !errors.Is(err, unix.EBADF) {
			t.Errorf("%v, want the error of the one that was made", err)
		}
	}
	if o.syncs.begun != begun+1 {
		t.Errorf("%d syncs for calls that waited at the same time", o.syncs.begun-begun)
	}
	if b, status := c.write(f, 0, []byte("y"), nfsv3.FILE_SYNC); status != nfsv3.NFS3_OK || a.Verf == b.Verf {
		t.Errorf("%v, verifiers %x and %x", status, a.Verf, b.Verf)
	}
}

// When a disk takes long, more syncs run after a while, but only so many as may have threads.
func TestSyncsOnASlowDisk(t *testing.T) {
	p := newPace()
	p.fill()
	<-p.slow
	if p.enter() != p.slow {
		t.Error("none may run beside those that take long")
	}
	entered := make(chan (<-chan struct{}), 1)
	go func() { entered <- p.enter() }()
	select {
	case <-entered:
		t.Fatal("one runs beyond the limit")
	case <-time.After(3 * syncPatience):
	}
	<-p.fast
	if <-entered != p.fast {
		t.Error("it did not take the place of the one that ended")
	}
}

// CREATE that truncates a file brings that to the disk, as SETATTR does.
func TestCreateSyncsWhatItTruncates(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
	x.brokenFD(f)
	if _, status := c.create(root, "f", &nfsv3.Createhow3_UNCHECKED{ObjAttributes: withSize(0)}); status == nfsv3.NFS3_OK {
		t.Error("CREATE did not synchronize the file")
	}
}

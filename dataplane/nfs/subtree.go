package nfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// subtree is an open exported directory, with all below it on the same mount. It ends when
// its file system goes away; another one may take its place.
type subtree struct {
	*process
	export *exportPoint
	log    *slog.Logger
	// asyncMetadata is Config.AsyncMetadata.
	asyncMetadata bool

	dir    *os.File // the root directory, opened to read
	top    *object  // the root directory; never given up before close
	place  posix.Place
	mount  int       // ID of the mount that the export is on
	fs     unix.Fsid // of the file system, 0 if it has none
	idKind fh.Kind
	// volatile: the file system is in memory alone, so that nothing of it is
	// ever on stable storage and there is nothing to wait for.
	volatile bool
	// onNFS: the file system is a mount of another NFS server, of any version.
	onNFS bool
	// layered: objects of one directory may be on several devices.
	layered bool
	// subvolumes: so may its directories.
	subvolumes bool
	// maxFile is the size of the largest file that the process may write and the file system can
	// have, in bytes. measure sets it before there are calls.
	maxFile uint64
	fsid    uint64
	codec   *fh.Codec
	locate  locator
	lister  lister

	hasOpenat2 bool

	cache   *cache
	replies *Replies
	// verifier is the write verifier (writeverf3, RFC 1813 §3.3.7). While it stays the same,
	// data that clients wrote UNSTABLE is in the kernel's page cache or on disk. When it
	// changes, they write again what they have not committed. Each subtree has another one, and
	// it changes after each error that may have lost data.
	verifier atomic.Uint64

	// epoch counts ticks of the clock that closes idle files.
	epoch atomic.Uint32
	// full is the epoch in which a stable WRITE last found no space, plus one; 0 before the first.
	full    atomic.Uint64
	ctx     context.Context // ends with close, first of all
	cancel  context.CancelFunc
	keeping sync.WaitGroup // that clock
	end     sync.Once
	// life is held for reading by calls that run.
	life   sync.RWMutex
	closed bool
}

// options are what tests set beyond the configuration.
type options struct {
	byName   bool // don't use open_by_handle_at
	noSwitch bool // don't act for callers
	inodeIDs bool // don't use name_to_handle_at either
}

// openSubtree opens the directory of an export. It starts one goroutine, which close ends.
func openSubtree(e *exportPoint) (_ *subtree, err error) {
	srv := e.srv
	s := &subtree{process: srv.process, export: e, log: srv.log, asyncMetadata: srv.cfg.AsyncMetadata, replies: srv.replies}
	s.cache = newCache(minFiles) // until it is served
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.verifier.Store(rand.Uint64())
	if s.dir, err = os.OpenFile(e.Path, unix.O_DIRECTORY, 0); err != nil {
		return nil, fmt.Errorf("nfs: export: %w", err)
	}
	if err := s.openTop(srv.opt); err != nil {
		s.dir.Close()
		return nil, fmt.Errorf("nfs: export %s: %w", e.Path, err)
	}
	s.keeping.Go(func() { s.housekeep(srv.cfg.IdleClose / idleTicks) })
	return s, nil
}

// openTop opens the root directory as a place and chooses how handles work on its file system.
func (s *subtree) openTop(opt options) error {
	if err := checkProc(int(s.dir.Fd())); err != nil {
		return err
	}
	top, err := locate(procPath(int(s.dir.Fd())))
	if err != nil {
		return err
	}
	if err = s.useTop(top, opt); err != nil {
		unix.Close(top.fd)
	}
	return err
}

func (s *subtree) useTop(at location, opt options) error {
	var st unix.Stat_t
	if err := unix.Fstat(at.fd, &st); err != nil {
		return err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(at.fd, &fs); err != nil {
		return err
	}
	s.place, s.mount = at.place, at.mount
	s.fs = fs.Fsid
	s.volatile, s.onNFS = isVolatile(&fs), fsType(&fs) == unix.NFS_SUPER_MAGIC
	s.maxFile = s.process.maxFile
	s.layered, s.subvolumes = fsType(&fs) == unix.OVERLAYFS_SUPER_MAGIC, fsType(&fs) == unix.BTRFS_SUPER_MAGIC
	s.locate = chooseLocator(s, at.fd, &fs, opt)
	s.hasOpenat2 = tryOpenat2(at.fd)
	id, err := s.identify(at.fd, &st)
	if err != nil {
		return err
	}
	key, err := s.export.srv.handleKey(&s.place)
	if err != nil {
		return err
	}
	if s.codec = fh.NewCodec(key, &id); !s.export.first {
		s.codec = fh.NewCodec(fh.SubKey(key, s.export.full), &id)
	}
	s.fsid = s.codec.FSID()
	top := s.newObject(&id, s.codec.Seal(&id), at.fd, &st)
	s.top = s.cache.put(top, 0)
	s.lister = chooseLister(s, &fs)
	return nil
}

// measure asks the file system for the size of its largest file. That writes to it, so only one
// that is served is asked.
func (s *subtree) measure() {
	if !s.export.ReadOnly {
		s.maxFile = largestFile(s.top.path, s.maxFile)
	}
}

// tryOpenat2 reports whether openat2(2) works: it may be missing or forbidden.
func tryOpenat2(dir int) bool {
	fd, err := unix.Openat2(dir, ".", &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// checkProc checks that descriptors have names in /proc.
func checkProc(fd int) error {
	var a, b unix.Stat_t
	if err := unix.Stat(procPath(fd), &a); err != nil {
		return fmt.Errorf("/proc must be mounted: %w", err)
	}
	if err := unix.Fstat(fd, &b); err != nil {
		return err
	}
	if a.Dev != b.Dev || a.Ino != b.Ino {
		return errors.New("/proc must be mounted")
	}
	return nil
}

// idleTicks is the number of ticks in IdleClose.
const idleTicks = 8

// housekeep tidies up from time to time.
func (s *subtree) housekeep(tick time.Duration) {
	t := time.NewTicker(max(tick, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
			s.tidy()
		}
	}
}

// tidy closes files that are idle, or that are too many since the limit was lowered.
func (s *subtree) tidy() {
	s.cache.closeIdle(s.epoch.Add(1) - idleTicks)
	s.cache.shrink(0, s.cache.limit.Load())
}

// close waits for running calls and closes all files.
func (s *subtree) close() {
	s.end.Do(func() {
		s.cancel()
		s.keeping.Wait()
		s.life.Lock()
		defer s.life.Unlock()
		s.closed = true
		s.locate.close()
		s.cache.clear()
		s.top.release()
		s.dir.Close()
	})
}

// deleted reports whether the exported directory was deleted. Its handle is still valid,
// because the server has the directory open: a client could mount it, and then each call
// would fail with STALE.
func (s *subtree) deleted() bool {
	var st unix.Stat_t
	return unix.Fstat(s.top.path, &st) == nil && st.Nlink == 0
}

// is reports whether s is what k identifies.
func (s *subtree) is(k *identification) bool { return s.top.id == k.root && s.fs == k.fs }

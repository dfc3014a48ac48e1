package nfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Programs and versions served.
const (
	Program      = 100003 // NFS
	Version      = 3
	MountProgram = 100005 // MOUNT
)

// Server serves one directory. It is an oncrpc.Handler for both programs.
type Server struct {
	cfg Config
	log *slog.Logger

	root   *os.Root
	dir    *os.File // the root directory, opened to read
	top    *object  // the root directory; never given up before Close
	place  posix.Place
	mount  int // ID of the mount that the export is on
	idKind fh.Kind
	// volatile: the file system is in memory alone, so that nothing of it is
	// ever on stable storage and there is nothing to wait for.
	volatile bool
	fsid     uint64
	maxFile  uint64
	codec    *fh.Codec
	locate   locator
	lister   lister

	// switcher lets threads act for callers. It is nil when the process is
	// not root: then all is done as the user that it runs as.
	switcher   *posix.Switcher
	ownUID     uint32
	ownGID     uint32
	ownGroups  []uint32
	umask      uint32
	hasOpenat2 bool

	cache    *cache
	verifier verifier
	replies  *replyCache
	mounts   mountTable
	requests sync.Pool

	// epoch counts ticks of the clock that closes idle files.
	epoch atomic.Uint32
	stop  chan struct{} // closed by Close, first of all
	done  chan struct{}
	end   sync.Once
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

// New opens the export. It starts one goroutine, which Close ends. The
// process's umask must not change afterwards.
func New(cfg Config) (*Server, error) { return newServer(cfg, options{}) }

func newServer(cfg Config, opt options) (_ *Server, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: cfg.Logger, maxFile: maxFileSize(), replies: newReplyCache()}
	s.cache = newCache(cfg.MaxOpenFiles)
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	s.requests.New = func() any { return &request{srv: s} }
	s.verifier.renew()
	if err := s.setIdentity(opt); err != nil {
		return nil, err
	}
	if s.root, err = os.OpenRoot(cfg.Path); err != nil {
		return nil, fmt.Errorf("nfs: export: %w", err)
	}
	if err := s.openTop(opt); err != nil {
		s.root.Close()
		return nil, fmt.Errorf("nfs: export %s: %w", cfg.Path, err)
	}
	go s.housekeep(cfg.IdleClose / idleTicks)
	return s, nil
}

// setIdentity finds out as whom the service can act.
func (s *Server) setIdentity(opt options) error {
	groups, err := unix.Getgroups()
	if err != nil {
		return fmt.Errorf("nfs: groups of the process: %w", err)
	}
	for _, g := range groups {
		s.ownGroups = append(s.ownGroups, uint32(g))
	}
	s.umask = readUmask()
	s.ownUID, s.ownGID = uint32(unix.Geteuid()), uint32(unix.Getegid())
	if opt.noSwitch {
		return nil
	}
	if sw, ok := posix.NewSwitcher(s.ownGID, s.ownGroups); ok {
		s.switcher = sw
	}
	return nil
}

// readUmask asks /proc, as the system call can't ask without setting. Without
// an answer it is 0: nothing is known to be taken away.
func readUmask() uint32 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
			return uint32(n)
		}
	}
	return 0
}

// openTop opens the root directory and chooses how handles work on its file
// system.
func (s *Server) openTop(opt options) error {
	dir, err := s.root.Open(".")
	if err != nil {
		return err
	}
	s.dir = dir
	err = checkProc(int(dir.Fd()))
	fd := -1
	if err == nil {
		fd, err = unix.Open(procPath(int(dir.Fd())), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		if err = s.useTop(fd, opt); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		dir.Close()
	}
	return err
}

func (s *Server) useTop(fd int, opt options) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := posix.PlaceOf(fd, &s.place); err != nil {
		return err
	}
	var err error
	if s.mount, err = posix.Mount(fd); err != nil {
		return err
	}
	s.volatile = isVolatile(fd)
	s.locate = chooseLocator(s, fd, opt)
	s.hasOpenat2 = tryOpenat2(fd)
	id, err := s.identify(fd, &st)
	if err != nil {
		return err
	}
	key, err := s.loadKey()
	if err != nil {
		return err
	}
	s.codec = fh.NewCodec(key, &id)
	s.fsid = s.codec.FSID()
	top := s.newObject(&id, s.codec.Seal(&id), fd, &st)
	s.top = s.cache.put(top, 0)
	s.lister = chooseLister(s, fd)
	return nil
}

// loadKey loads the key of handles. The state directory must not be within
// the export, where clients could read it.
func (s *Server) loadKey() (key [fh.KeySize]byte, err error) {
	if s.cfg.StateDir == "" {
		return fh.NewKey(), nil
	}
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return key, fmt.Errorf("state directory: %w", err)
	}
	dir, err := unix.Open(s.cfg.StateDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return key, err
	}
	defer unix.Close(dir)
	inside, err := below(dir, &s.place)
	if err != nil {
		return key, err
	}
	if inside {
		return key, fmt.Errorf("state directory %s is within it: clients could read its key", s.cfg.StateDir)
	}
	return fh.LoadKey(s.cfg.StateDir)
}

// tryOpenat2 says whether there is openat2(2): it may be missing or forbidden.
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

// checkProc makes sure that descriptors can be named in /proc.
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

// idleTicks is how many ticks of the clock IdleClose has.
const idleTicks = 8

// housekeep closes idle files.
func (s *Server) housekeep(tick time.Duration) {
	defer close(s.done)
	t := time.NewTicker(max(tick, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.cache.closeIdle(s.epoch.Add(1) - idleTicks)
		}
	}
}

// Close waits for calls that run and closes all files. Later calls are
// answered with SYSTEM_ERR. The error is nil.
func (s *Server) Close() error {
	s.end.Do(func() {
		close(s.stop)
		<-s.done
		s.life.Lock()
		defer s.life.Unlock()
		s.closed = true
		s.cache.clear()
		s.top.release()
		s.dir.Close()
		s.root.Close()
	})
	return nil
}

// SetMaxOpenFiles changes how many descriptors the files of the export may have:
// at most 4096, and at least 16. Over it, those that were not used for longest are
// closed; when all are in use, calls that need more are answered NFS3ERR_JUKEBOX.
func (s *Server) SetMaxOpenFiles(n int) {
	n = max(min(n, defaultMaxFiles), minFiles)
	s.cache.limit.Store(int64(n))
	s.cache.shrink(&s.cache.shards[0], int64(n))
}

// MaxOpenFiles is how many descriptors the files of the export may have.
func (s *Server) MaxOpenFiles() int { return int(s.cache.limit.Load()) }

// ended says whether Close was called.
func (s *Server) ended() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

var errClosed = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}

// ServeRPC implements oncrpc.Handler.
func (s *Server) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	s.life.RLock()
	defer s.life.RUnlock()
	if s.closed {
		return errClosed
	}
	switch call.Program {
	case Program:
		return s.serveNFS(ctx, call, reply)
	case MountProgram:
		return s.serveMount(call, reply)
	}
	return errProgUnavail
}

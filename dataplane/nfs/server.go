package nfs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Programs and versions served.
const (
	Program      = programs.NFS
	Version      = 3
	MountProgram = programs.Mount
)

// Server serves the exports of a Config. It is an oncrpc.Handler for both programs.
type Server struct {
	*process
	cfg Config
	opt options
	log *slog.Logger

	exports  []*exportPoint
	replies  *Replies
	mounts   *Mounts
	requests sync.Pool

	mu    sync.Mutex
	key   *[fh.KeySize]byte // of handles; nil until an export is open
	files int               // descriptors of all exports together

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	closing sync.WaitGroup // subtrees that are being closed
}

// New opens the exports. An export that RequireMountpoint keeps away is opened later, by
// Check or a MNT. The process's umask must not change afterwards.
func New(cfg Config) (*Server, error) { return newServer(cfg, options{}) }

func newServer(cfg Config, opt options) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, opt: opt, log: cfg.Logger, replies: cfg.Replies, mounts: cfg.Mounts, files: cfg.MaxOpenFiles}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.requests.New = func() any { return new(request) }
	if s.process, err = newProcess(opt); err != nil {
		return nil, err
	}
	if s.exports, err = newExportPoints(s); err != nil {
		return nil, err
	}
	for _, e := range s.exports {
		if err := e.openFirst(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// handleKey returns the key of handles for an export. The state directory must not be inside
// the export, where clients could read it.
func (s *Server) handleKey(export *posix.Place) (key [fh.KeySize]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.StateDir != "" {
		if err := s.keepOut(export); err != nil {
			return key, err
		}
	}
	if s.key == nil {
		key := fh.NewKey()
		if s.cfg.StateDir != "" {
			if key, err = fh.LoadKey(s.cfg.StateDir); err != nil {
				return key, err
			}
		}
		s.key = &key
	}
	return *s.key, nil
}

// keepOut makes the state directory and returns an error if it is inside an export.
func (s *Server) keepOut(export *posix.Place) error {
	if err := os.MkdirAll(s.cfg.StateDir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	dir, err := openDir(s.cfg.StateDir)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	inside, err := below(dir, export)
	if err == nil && inside {
		err = withinError(s.cfg.StateDir)
	}
	return err
}

// Close waits for running calls and closes all files. Later calls are answered with
// SYSTEM_ERR. The error is nil.
func (s *Server) Close() error {
	s.cancel()
	for _, e := range s.exports {
		e.giveUp()
	}
	s.closing.Wait()
	return nil
}

// Calls returns how many calls are in the file system of each export, or wait for that, by its path. Exports
// without such calls are left out.
func (s *Server) Calls() map[string]int {
	calls := make(map[string]int)
	for _, e := range s.exports {
		if n := int(e.crowd.calls.Load()) + len(e.mounting); n > 0 {
			calls[e.Path] = n
		}
	}
	return calls
}

// SetMaxOpenFiles changes how many descriptors the files of all exports together may have:
// at most 4096, and at least 16 for each export. Over it, those that were not used for
// longest are closed soon after; when all are in use, calls that need more are answered
// NFS3ERR_JUKEBOX. It closes no file itself: that may wait for a disk or a file server.
func (s *Server) SetMaxOpenFiles(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = min(n, defaultMaxFiles)
	for _, e := range s.exports {
		if tree := e.tree.Load(); tree != nil {
			tree.cache.limit.Store(s.filesEachLocked())
		}
	}
}

// MaxOpenFiles returns how many descriptors the files of all exports together may have.
func (s *Server) MaxOpenFiles() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.filesEachLocked()) * len(s.exports)
}

// filesEachLocked returns how many descriptors the files of one export may have.
func (s *Server) filesEachLocked() int64 { return int64(max(s.files/max(len(s.exports), 1), minFiles)) }

var errClosed = &oncrpc.AcceptError{Stat: oncrpc.SystemErr}

// ServeRPC implements oncrpc.Handler.
func (s *Server) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if s.ctx.Err() != nil {
		return errClosed
	}
	switch call.Program {
	case Program:
		return s.serveNFS(ctx, call, reply)
	case MountProgram:
		return s.serveMount(ctx, call, reply)
	}
	return errProgUnavail
}

// exportOf returns the export that the first handle of an NFS call names, or nil. The export
// then checks the handle itself.
func (s *Server) exportOf(call *oncrpc.Call) *exportPoint {
	if len(s.exports) == 1 {
		return s.exports[0]
	}
	args := xdr.NewDecoder(call.Args.Stream)
	return s.exportOfHandle(call.Args.Opaque(&args, fh.MaxSize))
}

func (s *Server) exportOfHandle(handle []byte) *exportPoint {
	h, ok := fh.FromBytes(handle)
	if !ok {
		return nil
	}
	for _, e := range s.exports {
		if known := e.known.Load(); known != nil && known.number == h.Export() {
			return e
		}
	}
	return nil
}

// elsewhere reports whether a handle names another export than e.
func (s *Server) elsewhere(e *exportPoint, handle []byte) bool {
	other := s.exportOfHandle(handle)
	return other != nil && other != e
}

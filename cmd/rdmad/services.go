package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// service is what answers calls, over RDMA through listeners and perhaps over
// TCP. It is a manager.Service.
type service struct {
	oncrpc.Handler // from Open on
	spec           manager.ServiceSpec
	log            *slog.Logger
	tcpOn          net.Listener // nil without TCP
	open           func(s *service, again bool) error
	places         *connlimit.Table
	failed         func(error)    // told when serving over TCP ends unasked
	closed         func(*service) // told at the end
	memory         func() procmem.Limit
	unpooled       *budget.Budget // of all forward services

	nfs     *nfs.Server // nil for others, and before Open
	serving sync.WaitGroup

	mu      sync.Mutex
	tcp     *rpctcp.Server     // nil without TCP, and before Open
	forward *forward.Forwarder // nil for others, and before Open
}

// Open implements manager.Service.
func (s *service) Open(again bool) error {
	if err := s.open(s, again); err != nil {
		return err
	}
	if s.tcpOn == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.memory()
	s.tcp = rpctcp.NewServer(rpctcp.Config{Handler: s.Handler, Logger: s.log, MemoryLimit: int(limit.TCP()), Parent: s.places})
	return nil
}

func (s *service) server() *rpctcp.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tcp
}

// Start implements manager.Service.
func (s *service) Start() {
	tcp := s.server()
	if tcp == nil {
		return
	}
	s.log.Info("listening", "what", "service", "address", s.tcpOn.Addr().String())
	s.serving.Go(func() {
		if err := tcp.Serve(s.tcpOn); err != nil {
			s.failed(fmt.Errorf("%s on TCP: %w", s.spec.Name, err))
		}
	})
}

// TCP implements manager.Service.
func (s *service) TCP() netip.AddrPort {
	if s.tcpOn == nil {
		return netip.AddrPort{}
	}
	a := s.tcpOn.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// Registrations implements manager.Service.
func (s *service) Registrations(rdma netip.AddrPort) []rpcbind.Registration {
	return registrations(&s.spec, s.tcpOn, rdma)
}

// Shutdown implements manager.Service.
func (s *service) Shutdown(ctx context.Context) error {
	if tcp := s.server(); tcp != nil {
		return tcp.Shutdown(ctx)
	}
	return nil
}

// Close implements manager.Service.
func (s *service) Close() error {
	if tcp := s.server(); tcp != nil {
		tcp.Close()
	}
	if s.tcpOn != nil {
		s.tcpOn.Close()
	}
	s.serving.Wait()
	s.closed(s)
	if s.nfs != nil {
		return s.nfs.Close()
	}
	return nil
}

// services makes services, and knows those there are.
type services struct {
	log    *slog.Logger
	state  func(name string) string // folder of one service's state; for Open
	failed func(error)
	memory func() procmem.Limit
	// unpooled is the memory of forward for results without registered memory.
	unpooled *budget.Budget
	places   *connlimit.Table // of TCP connections
	files    func() int       // how many descriptors the files of all exports may have

	mu  sync.Mutex
	all map[*service]struct{}
	// exports are of those that are open.
	exports map[*service]*nfs.Server
}

// kinds are the services of this build.
func (s *services) kinds() map[string]manager.Maker {
	return map[string]manager.Maker{
		"nfs": func(ctx context.Context, spec *manager.ServiceSpec) (manager.Service, error) {
			return s.make(ctx, spec, spec.NFS.TCPListen, s.openNFS)
		},
		"echo": func(ctx context.Context, spec *manager.ServiceSpec) (manager.Service, error) {
			return s.make(ctx, spec, "", openEcho)
		},
		"forward": func(ctx context.Context, spec *manager.ServiceSpec) (manager.Service, error) {
			return s.make(ctx, spec, "", openForward)
		},
	}
}

// make binds a service.
func (s *services) make(ctx context.Context, spec *manager.ServiceSpec, tcp string, open func(*service, bool) error) (manager.Service, error) {
	sv := &service{spec: *spec, log: s.log.With("service", spec.Name), open: open, places: s.places, failed: s.failed, closed: s.remove, memory: s.memory, unpooled: s.unpooled}
	if tcp != "" {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", tcp)
		if err != nil {
			return nil, manager.NewAddressError("service "+spec.Name+": tcp_listen", tcp, err)
		}
		sv.tcpOn = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[sv] = struct{}{}
	return sv, nil
}

func (s *services) remove(sv *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sv)
	delete(s.exports, sv)
	s.shareFilesLocked()
}

// shareFiles divides the descriptors of files between the exports.
func (s *services) shareFiles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shareFilesLocked()
}

func (s *services) shareFilesLocked() {
	for _, export := range s.exports {
		export.SetMaxOpenFiles(s.files() / len(s.exports))
	}
}

// shareMemory has the services on TCP follow the limit of the process's memory.
func (s *services) shareMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sv := range s.all {
		limit := s.memory()
		if tcp := sv.server(); tcp != nil {
			tcp.SetMemoryLimit(int(limit.TCP()))
		}
		if sv.forwarder() != nil {
			s.unpooled.SetLimit(limit.Forward())
		}
	}
}

func openEcho(s *service, _ bool) error {
	s.Handler = echo.New()
	return nil
}

func (s *services) openNFS(sv *service, again bool) error {
	n := sv.spec.NFS
	if again {
		if _, err := os.Stat(n.Path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is missing, and not made again, as what it held may be elsewhere: is its file system mounted?", n.Path)
		}
	}
	if err := openExport(n.Path); err != nil {
		return err
	}
	squash, err := nfs.ParseSquash(n.Squash)
	if err != nil {
		return err
	}
	sv.nfs, err = nfs.New(nfs.Config{
		Path:     n.Path,
		ReadOnly: n.ReadOnly,
		Squash:   squash,

		AsyncMetadata: n.AsyncMetadata,
		StateDir:      s.state(sv.spec.Name),
		Logger:        sv.log,
	})
	if err != nil {
		return err
	}
	sv.Handler = sv.nfs
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exports == nil {
		s.exports = make(map[*service]*nfs.Server)
	}
	s.exports[sv] = sv.nfs
	s.shareFilesLocked()
	return nil
}

// tcpStats are the counters of the services on TCP, by service.
func (s *services) tcpStats() map[string]rpctcp.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]rpctcp.Stats)
	for sv := range s.all {
		if tcp := sv.server(); tcp != nil {
			out[sv.spec.Name] = tcp.Stats()
		}
	}
	return out
}

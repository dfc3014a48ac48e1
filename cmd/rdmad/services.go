package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/procedures"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// service answers calls, over RDMA through listeners and possibly over TCP. It is a
// manager.Service.
type service struct {
	oncrpc.Handler // set by Open
	of             *services
	spec           spec.Service
	log            *slog.Logger
	tcpOn          net.Listener // nil without TCP
	open           func(s *service) error
	calls          *procedures.Table

	nfs     *nfs.Server     // nil for other services, and before Open
	replies *nfs.Replies    // of an NFS service
	mounts  *nfs.Mounts     // of an NFS service
	late    <-chan struct{} // closed when the open that Open gave up has ended; nil if Open gave up none
	serving sync.WaitGroup
	ending  atomic.Bool // Shutdown or Close was called

	tcp     atomic.Pointer[rpctcp.Server]     // nil without TCP, and before Open
	forward atomic.Pointer[forward.Forwarder] // nil for other services, and before Open
}

// Open implements manager.Service.
func (s *service) Open(ctx context.Context) error {
	if err := s.openWithin(ctx); err != nil {
		return err
	}
	s.Handler = s.calls.Count(s.Handler)
	if s.tcpOn == nil {
		return nil
	}
	limit := s.of.memory()
	s.tcp.Store(rpctcp.NewServer(rpctcp.Config{
		Handler: s.Handler, Logger: s.log, MemoryLimit: int(limit.TCP()), Places: s.of.places, Clients: s.of.clients, SlowCalls: s.of.slow(s.spec.Name),
	}))
	return nil
}

// openWithin opens the service, and gives up when ctx ends: a file system may begin to hang after answers has
// looked at it.
func (s *service) openWithin(ctx context.Context) error {
	if s.spec.NFS == nil {
		return s.open(s)
	}
	opened, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		opened <- s.open(s)
	}()
	select {
	case err := <-opened:
		return err
	case <-ctx.Done():
		s.late = ended
		all := strings.Join(paths(s.spec.NFS), " or ")
		s.of.ask(all, func() { <-ended }) // the next change waits for this goroutine, and starts no other
		return &noAnswerError{all}
	}
}

// Start implements manager.Service.
func (s *service) Start() {
	s.of.add(s)
	tcp := s.tcp.Load()
	if tcp == nil {
		return
	}
	s.log.Info("listening", "what", "service", "address", s.tcpOn.Addr().String())
	s.serving.Go(func() {
		// A service that is removed soon may end before this goroutine begins to serve, which then
		// is an error.
		if err := tcp.Serve(s.tcpOn); err != nil && !s.ending.Load() {
			s.of.failed(fmt.Errorf("%s on TCP: %w", s.spec.Name, err))
		}
	})
}

// TCP implements manager.Service.
func (s *service) TCP() netip.AddrPort {
	if s.tcpOn == nil {
		return netip.AddrPort{}
	}
	return tcpaddr.Of(s.tcpOn.Addr())
}

// Sockets implements manager.Service.
func (s *service) Sockets() []net.Listener {
	if s.tcpOn == nil {
		return nil
	}
	return []net.Listener{s.tcpOn}
}

// Registrations implements manager.Service.
func (s *service) Registrations(rdma netip.AddrPort) []rpcbind.Registration {
	return registrations(&s.spec, s.TCP(), rdma)
}

// Shutdown implements manager.Service.
func (s *service) Shutdown(ctx context.Context) error {
	s.ending.Store(true)
	if tcp := s.tcp.Load(); tcp != nil {
		return tcp.Shutdown(ctx)
	}
	return nil
}

// Close implements manager.Service.
func (s *service) Close() error {
	s.ending.Store(true)
	if tcp := s.tcp.Load(); tcp != nil {
		tcp.Close()
	}
	if s.tcpOn != nil {
		s.tcpOn.Close()
	}
	s.serving.Wait()
	s.of.remove(s)
	if s.late != nil {
		go func() {
			<-s.late
			_ = s.closeNFS()
		}()
		return nil
	}
	return s.closeNFS()
}

func (s *service) closeNFS() error {
	if s.nfs == nil {
		return nil
	}
	return s.nfs.Close()
}

// services makes services and keeps a list of them.
type services struct {
	log    *slog.Logger
	state  func(name string) string // folder of a service's state; used by Open
	failed func(error)              // called when serving over TCP ends unexpectedly
	memory func() procmem.Limit
	// unpooled bounds the memory of forward services for results without registered memory.
	unpooled *budget.Budget
	places   *connlimit.Table // of TCP connections
	clients  *clients.Table
	slow     func(service string) func(client netip.AddrPort) slow.Calls // of calls over TCP
	files    func() int                                                  // number of descriptors for the files of all exports

	mu  sync.Mutex
	all map[string]*service // the started ones that no other has replaced, by name
	// asked are the directories that answers waits for, and those of an Open that hangs; each channel is closed
	// once they have answered.
	asked map[string]chan struct{}
	// replaced are the others until they are closed: they still have files open.
	replaced []*service
}

// kinds returns the kinds of services in this build.
func (s *services) kinds() map[string]manager.Maker {
	return map[string]manager.Maker{
		"nfs": func(ctx context.Context, spec *spec.Service) (manager.Service, error) {
			return s.make(ctx, spec, spec.NFS.TCPListen, s.openNFS)
		},
		"echo": func(ctx context.Context, spec *spec.Service) (manager.Service, error) {
			return s.make(ctx, spec, "", openEcho)
		},
		"forward": func(ctx context.Context, spec *spec.Service) (manager.Service, error) {
			return s.make(ctx, spec, "", openForward)
		},
	}
}

// make makes a service and binds its address.
func (s *services) make(ctx context.Context, spec *spec.Service, tcp string, open func(*service) error) (manager.Service, error) {
	if err := s.answers(ctx, spec.NFS); err != nil {
		return nil, &manager.OpenError{What: "service", Name: spec.Name, Err: err}
	}
	sv := &service{of: s, spec: *spec, log: s.log.With("service", spec.Name), open: open}
	if tcp != "" {
		l, err := tcpaddr.Listen(ctx, tcp)
		if err != nil {
			return nil, manager.NewAddressError("service "+spec.Name+": tcp_listen", tcp, err)
		}
		sv.tcpOn = l
	}
	s.inherit(sv)
	return sv, nil
}

// add lists a service, in place of the one of its name.
func (s *services) add(sv *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.all[sv.spec.Name]; old != nil {
		s.replaced = append(s.replaced, old)
		if sv.nfs != nil && old.nfs != nil {
			for _, path := range sv.nfs.Differ(old.nfs) {
				sv.log.Warn("the export is another directory or file system than before the change", "path", path,
					"remedy", "if its file system is not mounted: mount it and restart rdmad, and set require_mountpoint")
			}
		}
	}
	s.all[sv.spec.Name] = sv
	s.shareFilesLocked()
	s.shareMemoryLocked() // the limit may have changed since Open
}

// inherit gives a new service its counters, its replies to calls that clients may repeat, and the list of
// clients that have mounted it. A service that takes another's place continues with those of that one.
func (s *services) inherit(sv *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.all[sv.spec.Name]; old != nil {
		sv.calls, sv.replies, sv.mounts = old.calls, old.replies, old.mounts
	} else {
		sv.calls = procedures.New()
	}
	if sv.spec.NFS != nil && sv.replies == nil {
		sv.replies, sv.mounts = nfs.NewReplies(), new(nfs.Mounts)
	}
}

func (s *services) remove(sv *service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[sv.spec.Name] == sv {
		delete(s.all, sv.spec.Name)
	}
	s.replaced = slices.DeleteFunc(s.replaced, func(old *service) bool { return old == sv })
	s.shareFilesLocked()
}

// shareFiles divides the descriptors of files between the exports.
func (s *services) shareFiles() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shareFilesLocked()
}

// everyLocked returns the started services, with those that others have replaced.
func (s *services) everyLocked() []*service {
	return slices.AppendSeq(slices.Clone(s.replaced), maps.Values(s.all))
}

func (s *services) shareFilesLocked() {
	var exports []*nfs.Server
	for _, sv := range s.everyLocked() {
		if sv.nfs != nil {
			exports = append(exports, sv.nfs)
		}
	}
	for _, export := range exports {
		export.SetMaxOpenFiles(s.files() / len(exports))
	}
}

// logHanging logs the connections over TCP that have not ended, and the exports with calls.
func (s *services) logHanging() {
	s.mu.Lock()
	every := s.everyLocked()
	s.mu.Unlock()
	for _, sv := range every {
		if tcp := sv.tcp.Load(); tcp != nil {
			for peer, calls := range tcp.InFlight() {
				sv.log.Error("connection over TCP does not end", "peer", peer.String(), "calls", calls)
			}
		}
		if sv.nfs != nil {
			for path, calls := range sv.nfs.Calls() {
				sv.log.Error("calls hang in an export", "path", path, "calls", calls)
			}
		}
	}
}

// shareMemory adapts the services on TCP to the limit of the process's memory.
func (s *services) shareMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shareMemoryLocked()
}

func (s *services) shareMemoryLocked() {
	for _, sv := range s.everyLocked() {
		limit := s.memory()
		if tcp := sv.tcp.Load(); tcp != nil {
			tcp.SetMemoryLimit(int(limit.TCP()))
		}
		if sv.forward.Load() != nil {
			s.unpooled.SetLimit(limit.Forward())
		}
	}
}

func openEcho(s *service) error {
	s.Handler = echo.New()
	return nil
}

// ofEach returns what there is of a part of the services that have it, by service.
func ofEach[P, T any](s *services, part func(*service) *P, of func(*P) T) map[string]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]T)
	for _, sv := range s.all {
		if p := part(sv); p != nil {
			out[sv.spec.Name] = of(p)
		}
	}
	return out
}

// procedures returns the counters of the services by procedure, by service.
func (s *services) procedures() map[string]*procedures.Table {
	return ofEach(s, func(sv *service) *procedures.Table { return sv.calls }, func(t *procedures.Table) *procedures.Table { return t })
}

// tcpStats returns the counters of the services on TCP, by service.
func (s *services) tcpStats() map[string]rpctcp.Stats {
	return ofEach(s, func(sv *service) *rpctcp.Server { return sv.tcp.Load() }, (*rpctcp.Server).Stats)
}

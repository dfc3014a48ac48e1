package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// service is what answers calls, over RDMA through listeners and perhaps over
// TCP. It is bound first and opened when everything is bound, so that a port
// in use leaves no folder behind.
type service struct {
	name  string
	tcpOn net.Listener // nil without TCP

	handler oncrpc.Handler // from open on
	nfs     *nfs.Server    // nil for others
	tcp     *rpctcp.Server // nil without TCP
}

// ServeRPC implements oncrpc.Handler. Nothing is served before open.
func (s *service) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	return s.handler.ServeRPC(ctx, call, reply)
}

// services are all of them, in the order of the configuration.
type services []*service

// bindServices binds the services' TCP addresses. On an error the caller
// closes those returned.
func bindServices(ctx context.Context, list []config.Service) (services, error) {
	var all services
	for _, c := range list {
		s := &service{name: c.Name}
		if c.NFS != nil && c.NFS.TCPListen != "" {
			var err error
			if s.tcpOn, err = listenTCP(ctx, "service "+c.Name+": tcp_listen", c.NFS.TCPListen); err != nil {
				return all, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// open makes the services themselves. list is what they were bound from.
func (all services) open(list []config.Service, st *state, log *slog.Logger) error {
	for i, s := range all {
		if err := s.open(&list[i], st, log.With("service", s.name)); err != nil {
			return fmt.Errorf("service %s: %w", s.name, err)
		}
	}
	return nil
}

func (s *service) open(c *config.Service, st *state, log *slog.Logger) error {
	if c.Echo != nil {
		s.handler = echo.New()
		return nil
	}
	squash, err := nfs.ParseSquash(c.NFS.Squash)
	if err != nil {
		return err
	}
	s.nfs, err = nfs.New(nfs.Config{
		Path:     c.NFS.Path,
		ReadOnly: c.NFS.ReadOnly,
		Squash:   squash,

		AsyncMetadata: c.NFS.AsyncMetadata,
		StateDir:      st.service(c.Name),
		Logger:        log,
	})
	if err != nil {
		return err
	}
	s.handler = s.nfs
	if s.tcpOn != nil {
		s.tcp = rpctcp.NewServer(rpctcp.Config{Handler: s.handler, Logger: log})
	}
	return nil
}

// serveTCP serves until shutdownTCP or close.
func (s *service) serveTCP() error { return s.tcp.Serve(s.tcpOn) }

// find gives the service of a name, which the configuration has.
func (all services) find(name string) *service {
	for _, s := range all {
		if s.name == name {
			return s
		}
	}
	return nil
}

// tcpStats are the counters of the services on TCP, by service.
func (all services) tcpStats() map[string]rpctcp.Stats {
	out := make(map[string]rpctcp.Stats)
	for _, s := range all {
		if s.tcp != nil {
			out[s.name] = s.tcp.Stats()
		}
	}
	return out
}

// shutdownTCP lets calls over TCP finish, all services at once.
func (all services) shutdownTCP(ctx context.Context) error {
	errs := make(chan error, len(all))
	n := 0
	for _, s := range all {
		if s.tcp != nil {
			n++
			go func() { errs <- s.tcp.Shutdown(ctx) }()
		}
	}
	out := make([]error, 0, n)
	for range n {
		out = append(out, <-errs)
	}
	return errors.Join(out...)
}

// close ends the services; nothing may call them any more over RDMA.
func (all services) close(log *slog.Logger) {
	for _, s := range all {
		if s.tcp != nil {
			s.tcp.Close()
		}
		if s.tcpOn != nil {
			s.tcpOn.Close()
		}
		if s.nfs != nil {
			if err := s.nfs.Close(); err != nil {
				log.Warn("service not closed", "service", s.name, "error", err)
			}
		}
	}
}

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
// TCP.
type service struct {
	name    string
	handler oncrpc.Handler
	nfs     *nfs.Server    // nil for others
	tcp     *rpctcp.Server // nil without
	tcpOn   net.Listener
}

// services are all of them, in the order of the configuration.
type services []*service

// openServices makes the services and binds their TCP addresses. On an error
// the caller closes those returned.
func openServices(ctx context.Context, list []config.Service, st *state, log *slog.Logger) (services, error) {
	var out services
	for i := range list {
		s, err := openService(ctx, &list[i], st, log.With("service", list[i].Name))
		if err != nil {
			return out, err
		}
		out = append(out, s)
	}
	return out, nil
}

func openService(ctx context.Context, c *config.Service, st *state, log *slog.Logger) (*service, error) {
	s := &service{name: c.Name}
	if c.Echo != nil {
		s.handler = echo.New()
		return s, nil
	}
	what := "service " + c.Name
	if c.NFS.TCPListen != "" {
		l, err := listenTCP(ctx, what+": tcp_listen", c.NFS.TCPListen)
		if err != nil {
			return nil, err
		}
		s.tcpOn = l
	}
	if err := s.openNFS(c, st, log); err != nil {
		if s.tcpOn != nil {
			s.tcpOn.Close()
		}
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}

// openNFS opens the export, and its server on TCP if that is bound.
func (s *service) openNFS(c *config.Service, st *state, log *slog.Logger) error {
	if err := openExport(c.NFS.Path); err != nil {
		return err
	}
	squash, err := nfs.ParseSquash(c.NFS.Squash)
	if err != nil {
		return err
	}
	s.nfs, err = nfs.New(nfs.Config{
		Path:     c.NFS.Path,
		ReadOnly: c.NFS.ReadOnly,
		Squash:   squash,
		StateDir: st.service(c.Name),
		Logger:   log,
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

// handler finds the handler of a service that the configuration names.
func (all services) handler(name string) oncrpc.Handler {
	for _, s := range all {
		if s.name == name {
			return s.handler
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
	var out []error
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

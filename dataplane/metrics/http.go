package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// Limits of the HTTP server, which only answers short scrapes.
const (
	requestTimeout = 10 * time.Second
	headerTimeout  = 5 * time.Second
	maxIdle        = 24 * time.Hour
	maxHeader      = 16 << 10
	keyGrace       = 10 * time.Millisecond // before a connection's place goes to another connection of its host
)

// DefaultScrapers returns the default limits of connections. The idle time is longer than
// the usual minute between two scrapes.
func DefaultScrapers() connlimit.Limits {
	return connlimit.Limits{Total: 64, PerKey: 16, KeyGrace: keyGrace, Idle: 90 * time.Second, HalfOpen: headerTimeout}
}

// Server answers /metrics from a registry, and /healthz and /readyz.
type Server struct {
	http     http.Server
	scrapers *connlimit.Table
	web      string // file with TLS and users, or ""
	log      *slog.Logger
}

// NewServer makes a server. scrapers limits its connections. webConfig is a file that
// CheckWebConfig accepts. Serve runs it on a listener.
func NewServer(reg *prometheus.Registry, health Health, scrapers *connlimit.Table, webConfig string, logger *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", newTurns().handler(promhttp.InstrumentMetricHandler(reg, promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:      port.ErrorLog(logger, slog.LevelError, "metrics"),
		ErrorHandling: promhttp.ContinueOnError,

		EnableOpenMetrics: true,
	}))))
	mux.HandleFunc("GET /healthz", health.healthz)
	mux.HandleFunc("GET /readyz", health.readyz)
	return &Server{scrapers: scrapers, web: webConfig, log: logger, http: http.Server{
		Handler:           mux,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1}, // as HTTP/1.1: connections are limited, and answers are long
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       maxIdle, // the table closes idle connections sooner
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          port.ErrorLog(logger, slog.LevelDebug, "metrics"),
		ConnState:         port.ConnState,
	}}
}

// Serve answers on l until Shutdown, and then returns nil.
func (s *Server) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go s.scrapers.Run(ctx)
	if err := s.serveWeb(port.Listen(l, s.scrapers, nil, s.log)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown finishes the requests that are being answered. If ctx ends first, it ends them.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.http.Close()
	return err
}

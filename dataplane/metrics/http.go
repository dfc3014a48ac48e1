package metrics

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits of the HTTP server: it answers scrapes, nothing that is large or
// takes long.
const (
	requestTimeout = 10 * time.Second
	maxHeader      = 16 << 10
	maxScrapes     = 8 // at once; more get 503
)

// Server answers /metrics from a registry, and /healthz with 200 while
// healthy says so and 503 otherwise.
type Server struct{ http http.Server }

// NewServer makes a server; Serve runs it on a listener.
func NewServer(reg *prometheus.Registry, healthy func() bool, logger *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(reg, promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog:            errorLog(logger, slog.LevelError),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	})))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !healthy() {
			http.Error(w, "stopping", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return &Server{http.Server{
		Handler:        mux,
		ReadTimeout:    requestTimeout,
		WriteTimeout:   requestTimeout,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       errorLog(logger, slog.LevelDebug),
	}}
}

// errorLog takes what net/http and promhttp have to say as text.
func errorLog(logger *slog.Logger, level slog.Level) *log.Logger {
	return log.New(lines{logger, level}, "", 0)
}

type lines struct {
	log   *slog.Logger
	level slog.Level
}

func (l lines) Write(text []byte) (int, error) {
	l.log.Log(context.Background(), l.level, "metrics server", "error", strings.TrimSpace(string(text)))
	return len(text), nil
}

// Serve answers on l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown finishes the requests that are being answered; when ctx ends
// first they are cut.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.http.Close()
	return err
}

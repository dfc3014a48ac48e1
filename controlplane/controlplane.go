// Package controlplane lets operators see and tune a running data plane.
//
// It keeps the desired settings (package desired, on the model of package settings), passes the
// data plane's events to watchers (package watch), and serves both by gRPC (package grpcapi,
// the only one that uses protobuf).
//
// The caller gives Settings.Resolve to the data plane before that accepts its first connection,
// calls Serve once, and ends with Shutdown, even if Serve was not called.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/console"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/tracing"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Dataplane is the data plane that a control plane shows and changes.
type Dataplane interface {
	desired.Dataplane
	grpcapi.Plane
	watch.Source
}

// Config configures a control plane. Dataplane and Listen are required. Zero values of other
// fields mean their defaults.
type Config struct {
	grpcapi.Daemon
	Dataplane Dataplane
	// Manager adds and removes services, listeners and connectors.
	Manager manager.API
	// Initial are the settings before any change; the zero value means the defaults of package
	// rpcrdma. Configured are those that the configuration file gave.
	Initial    rpcrdma.Settings
	Configured settings.KeySet
	// Conditions is the model of health. nil means one made of Manager and Connectors.
	Conditions *conditions.Registry
	// Listen is host:port, or unix:///path. Access decides which clients may connect.
	Listen string
	Access Access
	// Console is the address of the web console.
	Console Console
	// Sockets are Unix sockets that the service manager bound. The control plane owns them. It
	// uses the one at Listen's path instead of a new one, and closes the others with a warning.
	Sockets []net.Listener
	Logger  *slog.Logger
	// TracesTo is the OTLP endpoint for traces of the control plane, or "".
	TracesTo string
	// Registerer registers the control plane's metrics.
	Registerer prometheus.Registerer
	// WatchQueue limits the events that wait for a stream. A stream with more is dropped.
	WatchQueue int
}

func (c *Config) withDefaults() Config {
	d := *c
	if d.Initial == (rpcrdma.Settings{}) {
		d.Initial = rpcrdma.DefaultSettings()
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Registerer == nil {
		d.Registerer = prometheus.NewRegistry()
	}
	if d.Conditions == nil {
		d.Conditions = conditions.NewRegistry()
		manager.ReportConditions(d.Conditions, d.Manager)
	}
	if d.Access.Places == nil {
		d.Access.Places = grpcapi.NewPlaces(grpcapi.DefaultClients())
	}
	if d.WatchQueue == 0 {
		d.WatchQueue = watch.DefaultQueue
	}
	return d
}

// Controlplane is a control plane, bound to its address.
type Controlplane struct {
	// Settings are the desired settings. The caller opens them before Serve. Shutdown closes them.
	Settings *desired.Store

	hub      *watch.Hub
	server   *grpcapi.Server
	console  *console.Server // nil while it is off
	listener net.Listener
	log      *slog.Logger
	audit    *audit.Log // nil before OpenAudit
	recorded uint32     // newest revision that recordOwn has seen; of recordOwn alone until it has ended
	// endTracing sends the last spans.
	endTracing func(context.Context)

	ctx     context.Context // of the hub
	cancel  context.CancelFunc
	running sync.WaitGroup
	ending  sync.Mutex // held to end ctx, and to add to running while it hasn't ended
}

// New checks the initial settings and binds the address. It serves nothing yet. Errors are one
// line for the operator.
func New(ctx context.Context, cfg Config) (_ *Controlplane, err error) {
	cfg = cfg.withDefaults()
	defer func() {
		if err != nil {
			for _, l := range cfg.Sockets {
				l.Close()
			}
		}
	}()
	store, err := desired.New(cfg.Dataplane, cfg.Logger, &cfg.Initial, cfg.Configured)
	if err != nil {
		return nil, err
	}
	access, err := cfg.Access.open(cfg.Listen, cfg.Logger)
	if err != nil {
		return nil, err
	}
	c := &Controlplane{Settings: store, log: cfg.Logger, endTracing: func(context.Context) {}}
	c.hub = watch.NewHub(cfg.Dataplane, store, cfg.Logger, cfg.WatchQueue)
	defer func() {
		if err != nil {
			c.hub.Close()
			c.endTracing(ctx)
		}
	}()
	if err := registerRevision(cfg.Registerer, store); err != nil {
		return nil, err
	}
	tracer, err := c.startTracing(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	page, err := c.openConsole(ctx, &cfg, access.Policy)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && c.console != nil {
			err = errors.Join(err, c.console.Shutdown(ctx))
		}
	}()
	c.server, err = grpcapi.New(grpcapi.Config{
		Daemon:     cfg.Daemon,
		Tracer:     tracer,
		Plane:      cfg.Dataplane,
		Manager:    cfg.Manager,
		Store:      store,
		Hub:        c.hub,
		Conditions: cfg.Conditions,
		Logger:     cfg.Logger,
		Registerer: cfg.Registerer,
		Started:    time.Now(),
		Access:     access,
		Console:    page,
	})
	if err != nil {
		return nil, err
	}
	if c.listener, err = bind(ctx, &cfg, access.Policy); err != nil {
		return nil, errors.Join(err, c.server.Shutdown(ctx))
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// startTracing returns a provider of spans, or nil without an endpoint.
func (c *Controlplane) startTracing(ctx context.Context, cfg *Config) (oteltrace.TracerProvider, error) {
	if cfg.TracesTo == "" {
		return nil, nil
	}
	p, err := tracing.Start(ctx, cfg.TracesTo, cfg.Version, cfg.Logger)
	if err != nil {
		return nil, err
	}
	c.endTracing = func(ctx context.Context) {
		if err := p.Shutdown(ctx); err != nil {
			otel.Handle(err) // as the errors before
		}
	}
	return p, nil
}

func registerRevision(r prometheus.Registerer, store *desired.Store) error {
	err := r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rdmad_settings_revision",
		Help: "Revision of the live settings; grows with each change.",
	}, func() float64 { return float64(store.Revision()) }))
	if err != nil {
		return fmt.Errorf("metrics of the control plane: %w", err)
	}
	return nil
}

// Addr returns the address that the control plane listens on, in the form of rdmactl's --addr.
func (c *Controlplane) Addr() string { return address(c.listener.Addr()) }

// Serve answers requests until Shutdown. It then returns nil.
func (c *Controlplane) Serve() error {
	if c.audit != nil {
		sequence, hash := c.audit.Newest()
		c.log.Info("recording changes in the audit log", "sequence", sequence, "hash", hash)
	}
	c.ending.Lock()
	if c.ctx.Err() == nil {
		c.running.Go(func() { c.hub.Run(c.ctx) })
	}
	c.ending.Unlock()
	return c.server.Serve(c.listener)
}

// Check reports whether the control plane answers, see grpcapi.Server.Check.
func (c *Controlplane) Check(ctx context.Context) error { return c.server.Check(ctx) }

// Shutdown ends the streams of events, lets calls in progress finish and closes the listener.
// If ctx ends first, Shutdown cuts the calls off and returns ctx's error.
func (c *Controlplane) Shutdown(ctx context.Context) error {
	c.ending.Lock()
	c.cancel()
	c.ending.Unlock()
	watched := c.Settings.History(0, 1) // and what came before
	c.Settings.EndWatchers()
	var err error
	if c.console != nil {
		err = c.console.Shutdown(ctx)
	}
	err = errors.Join(err, c.server.Shutdown(ctx))
	c.running.Wait()
	c.listener.Close()
	err = errors.Join(err, c.Settings.Close())
	c.endTracing(ctx)
	if c.audit != nil {
		last := c.recorded
		for _, e := range watched {
			last = max(last, e.Revision)
		}
		c.recordSince(last) // such as the rollback of a change whose confirm window ended meanwhile
		err = errors.Join(err, c.audit.Close())
	}
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/notify"
	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// closeTimeout is how long what remains after the drain may take to end.
const closeTimeout = 2 * time.Second

// daemon is a rdmad: first bound, then running.
type daemon struct {
	log       *slog.Logger
	notify    *notify.Notifier
	registry  *prometheus.Registry
	state     *state
	opening   sync.Mutex // guards providers
	providers providers.Set
	tuning    tuning.Settings // of provider rdmacore
	memory    *procmem.Process
	services  services
	manager   *manager.Manager
	connect   *connector.Set
	data      *dataplane.Dataplane
	control   *controlplane.Controlplane
	metrics   *metrics.Server
	metricsOn net.Listener // nil without metrics
	registrar *rpcbind.Registrar
	places    *places
	counter   *counter

	fileWaits bool // the configuration file's settings aren't in force yet

	stopping atomic.Bool
	running  sync.WaitGroup
	failed   chan error // one for each server
}

// serve runs a daemon until a signal ends it; load reads the configuration
// again. An error before anything is served means that nothing was started;
// after that it is a *servingError.
func serve(c *config.Config, load func() (*config.Config, error), drain time.Duration, log *slog.Logger) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	d, err := bind(ctx, c, log)
	if err != nil {
		d.close()
		return err
	}
	d.start()
	d.running.Go(func() { d.notify.Watch(ctx, d.works) })
	stopReloading := d.reload(c, load, drain, hangup)
	err = d.wait(ctx)
	stopReloading()
	cancel() // the next signal ends the process the way signals do
	d.stop(drain)
	return err
}

// bind takes every address, directory and file that the configuration names.
// On an error the caller closes what there is of the daemon.
func bind(ctx context.Context, c *config.Config, log *slog.Logger) (*daemon, error) {
	d := &daemon{
		log:       log,
		notify:    notify.New(log),
		registry:  prometheus.NewRegistry(),
		providers: make(providers.Set),
		tuning:    c.Providers.Rdmacore,
		memory:    procmem.New(log, dataplane.DefaultMemory, dataplane.MinMemory),
		failed:    make(chan error, 2),
	}
	initial, given := c.Settings.Initial()
	var err error
	if d.places, err = newPlaces(c, log); err != nil {
		return d, err
	}
	d.memory.Configured(int64(c.Limits.Memory))
	d.data = dataplane.New(dataplane.Config{
		Logger: log, Limits: c.Limits.Limits, TCP: c.Limits.TCP(), Memory: int64(c.Limits.Memory), Registered: d.applyMemory,
		Descriptors: d.places.descriptors(),
	})
	d.places.data = d.data
	d.shareTraces()
	if err := d.makeManager(); err != nil {
		return d, err
	}
	d.registry.MustRegister(metrics.New(d.data), metrics.NewTCP(d.services.tcpStats), metrics.NewForward(d.services.forwardStats), metrics.NewConnectors(d.data),
		metrics.NewMemory(d.memory.Usage),
		metrics.NewPorts(map[string]*connlimit.Table{"control": d.places.clients.Clients, "metrics": d.places.scrapers}),
		metrics.BuildInfo(versionString()), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	sockets, err := notify.Sockets()
	if err != nil {
		return d, err
	}
	access := c.Control.Access()
	access.Places = d.places.clients
	if d.control, err = controlplane.New(ctx, controlplane.Config{
		Dataplane:   controlplane.Live(d.data),
		Manager:     countedManager{d.manager, d.counter},
		Connectors:  countedConnectors{d.connect, d.counter},
		Initial:     initial,
		Configured:  given,
		Listen:      c.Control.Listen,
		Access:      access,
		Sockets:     sockets,
		Version:     versionString(),
		Providers:   providers.Inventory(),
		Devices:     providers.Devices,
		Memory:      d.memory.Usage,
		Descriptors: d.places.divided,
		Ports:       d.places,
		Logger:      log,
		Registerer:  d.registry,
	}); err != nil {
		return d, err
	}
	d.data.ApplySettings(dataplane.Update{Resolve: d.control.Resolver()})
	if err := d.bindMetrics(ctx, c.Metrics.Listen); err != nil {
		return d, err
	}
	if err := d.manager.Configure(ctx, c.Services, c.Listeners); err != nil {
		return d, startError(err)
	}
	if err := d.connect.Configure(ctx, c.Connectors); err != nil {
		return d, startError(err)
	}
	return d, d.open(ctx, c)
}

// startError reports an address in the form of all errors at the start.
func startError(err error) error {
	var a *manager.AddressError
	if errors.As(err, &a) {
		return bindError(a.What, a.Address, a.Err)
	}
	return err
}

// applyMemory puts a limit of the process's memory in force. It returns the part
// for registered memory.
func (d *daemon) applyMemory(limit int64) (registered int64) {
	registered = d.memory.Apply(limit)
	d.services.shareMemory()
	d.shareTraces()
	return registered
}

// shareTraces has traces and captures follow the limit of the process's memory.
func (d *daemon) shareTraces() {
	if d.data != nil { // it is being made with the first limit
		limit := d.memory.Limit()
		d.data.Tracing().SetMemory(limit.Traces())
	}
}

// makeManager makes what services and listeners are added to.
func (d *daemon) makeManager() (err error) {
	d.services = services{
		log:    d.log,
		state:  func(name string) string { return d.state.service(name) },
		failed: d.fail,
		memory: d.memory.Limit, unpooled: budget.New(0),
		places: d.data.TCPPlaces(),
		files:  d.places.files,
		all:    make(map[*service]struct{}),
	}
	if d.registrar, err = rpcbind.New(rpcbind.Config{Logger: d.log}); err != nil {
		return err
	}
	d.manager = manager.New(manager.Config{
		Dataplane: d.data,
		Provider:  d.provider,
		Providers: providers.Names(),
		Kinds:     d.services.kinds(),
		Registrar: d.registrar,
		Logger:    d.log,
	})
	d.connect = connector.NewSet(connector.SetConfig{
		Dataplane: d.data, Provider: d.provider, Providers: providers.Names(), Bindings: ulb.NewRegistry(nfs.Bindings()...), Logger: d.log,
	})
	d.counter = &counter{places: d.places, change: d.services.shareFiles, there: func() int {
		return len(d.manager.Services()) + len(d.manager.Listeners()) + len(d.connect.Connectors())
	}}
	return nil
}

// provider gives the provider of a name, made at first use.
func (d *daemon) provider(name string) (rdmacm.Provider, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	return d.providers.Open(name, providers.Options{Logger: d.log, Rdmacore: d.tuning, Handshakes: d.places.handshakes()})
}

// reconfigure makes the services, listeners and limits of the file's new
// version those that run; c was checked. Listeners that go, or come back
// changed, are drained for as long as drain says. What can be done is done;
// the error, of a line for each, names what can't.
func (d *daemon) reconfigure(ctx context.Context, c *config.Config, drain time.Duration) error {
	defer d.counter.count()
	return errors.Join(
		d.places.configure(c),
		d.manager.SetLimits(c.Limits.Limits),
		d.setMemory(int64(c.Limits.Memory)),
		d.data.SetTCPLimits(c.Limits.TCP()),
		d.manager.Reload(ctx, c.Services, c.Listeners, drain),
		d.connect.Reload(ctx, c.Connectors, drain),
	)
}

// setMemory puts the configuration's memory limit in force.
func (d *daemon) setMemory(limit int64) error {
	d.memory.Configured(limit)
	return d.data.SetMemory(limit)
}

// open takes the directories and files, once all addresses are bound, and
// brings back what operators added.
func (d *daemon) open(ctx context.Context, c *config.Config) (err error) {
	for _, s := range c.Services { // before there is a state directory
		if s.NFS == nil {
			continue
		}
		if err := openExport(s.NFS.Path); err != nil {
			return fmt.Errorf("service %s: %w", s.Name, err)
		}
	}
	if d.state, err = openState(c.State.Path); err != nil {
		return err
	}
	if err := d.control.OpenAudit(d.state.path); err != nil {
		return err
	}
	if d.fileWaits, err = d.control.OpenSettings(d.state.settings(), c.Layer()); err != nil {
		return err
	}
	if err := d.manager.Open(); err != nil {
		return err
	}
	if err := d.manager.Restore(ctx, manager.NewFile(d.state.listeners())); err != nil {
		return err
	}
	defer d.counter.count()
	return d.connect.Restore(ctx, manager.NewConnectorFile(d.state.connectors()))
}

func (d *daemon) bindMetrics(ctx context.Context, address string) (err error) {
	d.metrics = metrics.NewServer(d.registry, func() bool { return !d.stopping.Load() }, d.places.scrapers, d.log)
	if address != "" {
		d.metricsOn, err = listenTCP(ctx, "metrics.listen", address)
	}
	return err
}

// start serves on everything that is bound, says so, and returns.
func (d *daemon) start() {
	d.serve("control plane", d.control.Serve)
	d.log.Info("listening", "what", "control plane", "address", d.control.Addr())
	if d.metricsOn != nil {
		d.serve("metrics", func() error { return d.metrics.Serve(d.metricsOn) })
		d.log.Info("listening", "what", "metrics", "address", d.metricsOn.Addr().String())
	}
	d.manager.Start()
	for _, l := range d.data.Listeners() {
		d.log.Info("listening", "what", "listener", "listener", l.Name, "provider", l.Provider,
			"service", l.Service, "address", l.Address.String())
	}
	d.data.Start()
	d.connect.Start()
	d.registrar.Start()
	d.log.Info("ready", "version", versionString())
	d.notify.Ready()
}

// serve runs a server; its end before stop is a failure of the daemon.
func (d *daemon) serve(what string, f func() error) {
	d.running.Go(func() {
		err := f()
		if err == nil {
			err = errors.New("ended unasked")
		}
		d.fail(fmt.Errorf("%s: %w", what, err))
	})
}

// fail ends the daemon, unless it is ending.
func (d *daemon) fail(err error) {
	if d.stopping.Load() {
		return
	}
	select {
	case d.failed <- err:
	default: // others were first
	}
}

// wait returns nil when ctx ends, by a signal, and a *servingError when a
// server fails.
func (d *daemon) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		d.log.Info("stopping", "reason", context.Cause(ctx).Error())
		return nil
	case err := <-d.failed:
		d.log.Error("stopping", "reason", err.Error())
		return &servingError{err}
	}
}

// stop lets calls in flight finish for as long as drain says, then ends
// everything. Operators can watch until the last connection is down.
func (d *daemon) stop(drain time.Duration) {
	d.stopping.Store(true)
	d.notify.Stopping()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	tcp, connectors := make(chan error, 1), make(chan error, 1)
	go func() { tcp <- d.manager.Shutdown(ctx) }()
	go func() { connectors <- d.connect.Shutdown(ctx) }()
	unregistered := make(chan struct{})
	go func() {
		defer close(unregistered)
		d.unregister()
	}()
	for _, err := range []error{d.data.Shutdown(ctx), <-tcp, <-connectors} {
		if err != nil {
			d.log.Warn("not everything was finished in time", "error", err)
		}
	}
	<-unregistered
	d.close()
	d.running.Wait()
	d.log.Info("stopped")
}

// unregister removes the registrations at rpcbind, so that no client comes any
// more.
func (d *daemon) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.registrar.Close(ctx); err != nil {
		d.log.Warn("still registered with rpcbind", "error", err)
	}
}

// close ends whatever of a daemon is there, in the order of dependence.
func (d *daemon) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	d.stopping.Store(true)
	if d.connect != nil {
		if err := d.connect.Shutdown(ctx); err != nil {
			d.log.Warn("connections cut off", "error", err)
		}
	}
	if d.data != nil {
		if err := d.data.Shutdown(ctx); err != nil {
			d.log.Warn("connections cut off", "error", err)
		}
	}
	if d.control != nil {
		if err := d.control.Shutdown(ctx); err != nil {
			d.log.Warn("control plane cut off", "error", err)
		}
	}
	if d.metrics != nil {
		if err := d.metrics.Shutdown(ctx); err != nil {
			d.log.Warn("metrics cut off", "error", err)
		}
	}
	if d.metricsOn != nil {
		d.metricsOn.Close()
	}
	if d.manager != nil {
		d.manager.Close()
	}
	d.providers.Close(d.log)
	if d.state != nil {
		d.state.close()
	}
	d.memory.Close()
}

// works says whether the control plane answers, and whether the locks that
// accepting and ending connections need can be had: what the service manager's
// watchdog is told of. It waits for neither disks nor peers.
func (d *daemon) works(ctx context.Context) error {
	d.data.Listeners()
	d.data.Connections()
	return d.control.Check(ctx)
}

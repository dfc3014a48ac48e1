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

	"github.com/rdmad/rdmad/cmd/internal/interrupt"
	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/notify"
	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/loglevel"
	model "github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// closeTimeout bounds the time for closing everything that remains after the drain.
const closeTimeout = 2 * time.Second

// Work that may hang. The end of rdmad waits for it, and the log then names it.
const (
	starting  = "the start"
	reloading = "a reload of the configuration"
)

// daemon is one rdmad. It is first bound, then runs.
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
	config    atomic.Pointer[config.Config] // in force: of the file, the environment and the flags
	limits    spec.Limits                   // of the file at the start
	changed   spec.Changes                  // by operators, before the last stop
	manager   *manager.Manager
	data      *dataplane.Dataplane
	control   *controlplane.Controlplane
	metrics   *metrics.Server
	metricsOn net.Listener // nil without metrics
	registrar *rpcbind.Registrar
	places    *places
	health    *health
	fleet     *membership // nil outside of a fleet

	fileWaits bool // the configuration file's settings are not applied yet

	ready    atomic.Bool
	stopping atomic.Bool
	waitsFor atomic.Value // string: what the end waits for
	running  sync.WaitGroup
	failed   chan error // has room for one error of each server
}

// serve runs a daemon until a signal ends it. load reads the configuration again. If serving
// had begun, or something hangs at the end, an error is a *servingError. Any other error means that nothing was started.
func serve(c *config.Config, load func() (*config.Config, error), drain time.Duration, log *slog.Logger, level *loglevel.Level) error {
	signal.Ignore(syscall.SIGPIPE) // Go ends a program whose standard error has no reader any more
	ctx, cancel := interrupt.Context()
	defer cancel()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var up atomic.Pointer[daemon]
	var refused atomic.Pointer[error]     // why the start failed
	limit := max(drain, drain+endTimeout) // the sum is negative if it overflows
	return inTime(ctx, limit, func() error {
		d, err := bind(ctx, c, log, level)
		if err != nil {
			if ctx.Err() != nil { // a signal ended the start; standard error may take nothing
				log.Info("stopping during the start", "reason", context.Cause(ctx).Error(), "error", config.OneLine(err))
				err = nil
			} else {
				refused.Store(&err)
			}
			cancel()
			d.close()
			return err
		}
		d.waitsFor.Store(starting)
		up.Store(d)
		d.start()
		d.waitsFor.Store(reloading)
		d.running.Go(func() { d.notify.Watch(ctx, d.works) })
		d.running.Go(func() { d.health.report(ctx, d.notify.Status) })
		d.running.Go(func() { d.memory.Rest(ctx) })
		stopReloading := d.reload(c, load, drain, hangup)
		err = d.wait(ctx)
		cancel()
		reloads := stopReloading()
		within(reloads)
		d.stop(drain)
		d.waitsFor.Store(reloading)
		<-reloads
		d.log.Info("stopped")
		return err
	}, func() {
		if why := refused.Load(); why != nil {
			log.Error("the start failed", "error", config.OneLine(*why))
		}
		up.Load().giveUp(log)
	})
}

// within waits until something has ended, for a bounded time: what hangs must keep no addresses, and no calls from their drain.
func within(ended <-chan struct{}) {
	select {
	case <-ended:
	case <-time.After(closeTimeout):
	}
}

// bind opens every address, directory and file that the configuration names. After an error
// the caller closes the parts of the daemon that exist.
func bind(ctx context.Context, c *config.Config, log *slog.Logger, level *loglevel.Level) (*daemon, error) {
	d := &daemon{
		log:       log,
		notify:    notify.New(log),
		registry:  prometheus.NewRegistry(),
		providers: make(providers.Set),
		tuning:    c.Providers.Rdmacore,
		memory:    procmem.New(log, dataplane.DefaultMemory, dataplane.MinMemory),
		failed:    make(chan error, 3),
	}
	d.config.Store(c)
	initial, given := c.Settings.Initial()
	var err error
	d.state, err = until(ctx, c.State.Path, func() (*state, error) {
		if _, none := os.Stat(c.State.Path); none == nil {
			return openState(c.State.Path) // before its files are read
		}
		return nil, nil // open makes a new one
	})
	if err != nil {
		return d, err
	}
	d.changed, err = until(ctx, c.State.Path, func() (spec.Changes, error) { return storedChanges(c.State.Path) })
	if err != nil {
		return d, err
	}
	d.limits = c.Limits
	if c, _, err = withLimits(c, d.changed.Limits); err != nil {
		return d, err
	}
	if d.places, err = newPlaces(c, log); err != nil {
		return d, err
	}
	d.memory.Configured(int64(d.limits.Memory))
	budget := d.places.current()
	d.data = dataplane.New(dataplane.Config{
		Logger: log, Limits: c.Limits.Limits, TCP: c.Limits.TCP(), Memory: int64(c.Limits.Memory), Registered: d.applyMemory,
		Descriptors: connections(&budget), SlowCall: c.SlowCall,
	})
	d.places.data = d.data
	d.shareTraces()
	if err := d.makeManager(); err != nil {
		return d, err
	}
	d.health = newHealth(d, c)
	d.registry.MustRegister(metrics.New(d.data.Stats), metrics.NewConditions(d.health.known), metrics.NewTCP(d.services.tcpStats), metrics.NewForward(d.services.forwardStats), metrics.NewProcedures(d.services.procedures), metrics.NewClients(d.data.Clients()), metrics.NewConnectors(d.data.Connectors),
		metrics.NewMemory(d.memory.Usage), d.health.reloads, metrics.NewCertificates(d.health.expiry),
		metrics.NewPorts(map[string]*connlimit.Table{"control": d.places.clients.Clients, "metrics": d.places.scrapers}),
		metrics.BuildInfo(versionString()), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if d.fleet, err = newMembership(c.Fleet, d.health.known); err != nil {
		return d, err
	}
	if d.fleet != nil {
		d.registry.MustRegister(metrics.NewFleet(d.fleet.measure))
	}
	sockets, err := notify.Sockets()
	if err != nil {
		return d, err
	}
	access := c.Control.Access()
	access.Places = d.places.clients
	if d.control, err = controlplane.New(ctx, controlplane.Config{
		Daemon: grpcapi.Daemon{
			Version:     versionString(),
			Import:      d.importFile,
			Providers:   providers.Inventory(),
			Devices:     providers.Devices,
			Memory:      d.memory.Usage,
			Descriptors: d.places.divided,
			LogLevel:    level,
			Fleet:       d.fleet.api(),
		},
		Dataplane:  d.data,
		Manager:    d.manager.API,
		Conditions: d.health.known,
		Initial:    initial,
		Configured: given,
		Listen:     c.Control.Listen,
		Access:     access,
		Console:    c.Console.Address(),
		Sockets:    sockets,
		Logger:     log,
		TracesTo:   c.Tracing.OTLPEndpoint,
		Registerer: d.registry,
	}); err != nil {
		return d, err
	}
	d.data.ApplySettings(dataplane.Update{Resolve: d.control.Settings.Resolve}, nil)
	if err := d.bindMetrics(ctx, &c.Metrics); err != nil {
		return d, err
	}
	if err := d.manager.Configure(ctx, &c.All); err != nil {
		return d, startError(c, err)
	}
	return d, d.open(ctx, c)
}

// startError formats the errors of addresses like all errors at the start.
func startError(c *config.Config, err error) error {
	var all manager.ChangeErrors
	if !errors.As(err, &all) {
		return err
	}
	if len(all) == 1 && all[0].What == "limits" {
		return blame(c, &all[0])
	}
	errs := make([]error, len(all))
	for i, one := range all {
		errs[i] = one.Err
		if a, ok := errors.AsType[*manager.AddressError](one.Err); ok {
			errs[i] = bindError(a.What, a.Address, a.Err)
		}
	}
	return errors.Join(errs...)
}

// applyMemory applies a limit of the process's memory. It returns the part for registered
// memory, in bytes.
func (d *daemon) applyMemory(limit int64) (registered int64) {
	registered = d.memory.Apply(limit)
	d.services.shareMemory()
	d.shareTraces()
	return registered
}

// shareTraces adapts traces and captures to the limit of the process's memory.
func (d *daemon) shareTraces() {
	if d.data != nil { // nil while the data plane is being made with the first limit
		limit := d.memory.Limit()
		d.data.Tracing().SetMemory(limit.Traces())
	}
}

// makeManager makes the manager of services, listeners and connectors.
func (d *daemon) makeManager() (err error) {
	d.services = services{
		log:    d.log,
		state:  func(name string) string { return d.state.service(name) },
		failed: d.fail,
		memory: d.memory.Limit, unpooled: budget.New(0),
		places: d.data.TCPPlaces(), clients: d.data.Clients(), slow: d.data.TCPSlowCalls,
		files: func() int { return d.places.current().Files },
		all:   make(map[string]*service),
	}
	if d.registrar, err = rpcbind.New(rpcbind.Config{Logger: d.log}); err != nil {
		return err
	}
	d.manager = manager.New(manager.Config{
		Dataplane: manager.Over(d.data),
		Provider:  d.provider,
		Providers: providers.Names(),
		Kinds:     d.services.kinds(),
		Bindings:  ulb.NewRegistry(nfs.Bindings()...),
		Registrar: d.registrar,
		Changed:   d.changed,
		Limits:    d.limits,
		Bounds:    d,
		Needed:    d.needed,
		Room:      d.places.mayServe,
		Counted: func(n int) {
			d.places.serve(n)
			d.services.shareFiles()
			d.health.follow()
		},
		Logger: d.log,
	})
	return nil
}

// needed implements manager.Config.Needed.
func (d *daemon) needed(name string) error {
	c, scope := d.config.Load(), model.Scope{Kind: model.Listener, Name: name}
	if _, given := c.Scopes[scope]; !given || c.Listens(name) {
		return nil
	}
	return &manager.NeededError{Name: name, At: c.Origins.Of(configfile.ScopesKey + "." + scope.String()).String()}
}

// provider returns the provider of a name and makes it at first use.
func (d *daemon) provider(name string) (rdmacm.Provider, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	b := d.places.current()
	return d.providers.Open(name, providers.Options{Logger: d.log, Rdmacore: d.tuning, Handshakes: b.Handshakes()})
}

// open opens the directories and files, once all addresses are bound, and restores what
// operators added.
func (d *daemon) open(ctx context.Context, c *config.Config) (err error) {
	missing, err := until(ctx, "an export", func() (configfile.Errors, error) { // before the state directory is made
		if err := makeDefaultExport(c, &d.changed); err != nil {
			return nil, err
		}
		return missingExports(c, &d.changed, readExport), nil
	})
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return missing
	}
	if d.state == nil {
		d.state, err = until(ctx, c.State.Path, func() (*state, error) { return openState(c.State.Path) })
		if err != nil {
			return err
		}
	}
	if err := d.control.OpenAudit(d.state.path); err != nil {
		return err
	}
	waits, err := d.control.Settings.Open(d.state.settings(), c.Layer())
	if err != nil {
		return err
	}
	if d.fileWaits = waits != nil; d.fileWaits {
		d.reportWaits(c, waits)
	}
	d.leaveFleet(c)
	if err := d.manager.Open(ctx); err != nil {
		return err
	}
	added := &addedStore{manager.NewFile(d.state.listeners()), d.control, d.log}
	if err := added.TakeOver(d.state.connectors()); err != nil {
		return err
	}
	return d.manager.Restore(ctx, added)
}

// reportWaits records why the settings of the configuration file are not in force at the start.
func (d *daemon) reportWaits(c *config.Config, waits error) {
	err := c.Blame(waits)
	d.control.RecordReload(c.File, err)
	if errors.As(waits, new(*desired.StorageError)) {
		d.log.Error("the live settings of the configuration file are not in force, those before are, until they can be stored; rdmad tries again",
			"file", c.File, "error", config.OneLine(err))
		return
	}
	d.log.Error("the live settings of the configuration file are not in force, those before are, until the stored settings change",
		"file", c.File, "error", config.OneLine(err), "remedy", "rdmactl settings get shows what is set; set KEY=unset takes it away")
}

func (d *daemon) bindMetrics(ctx context.Context, c *config.Metrics) (err error) {
	_, err = until(ctx, c.WebConfig, func() (any, error) { return nil, metrics.CheckWebConfig(c.WebConfig) })
	if err != nil {
		return fmt.Errorf("metrics.web_config: %w", err)
	}
	d.metrics = metrics.NewServer(d.registry, metrics.Health{Conditions: d.health.known, Phase: d.phase}, d.places.scrapers, c.WebConfig, d.log)
	if c.Listen == "" {
		return nil
	}
	if d.metricsOn, err = tcpaddr.Listen(ctx, c.Listen); err != nil {
		return bindError("metrics.listen", c.Listen, err)
	}
	return nil
}

// start begins to serve on all bound addresses, reports that, and returns.
func (d *daemon) start() {
	d.serve("control plane", d.control.Serve)
	d.log.Info("listening", "what", "control plane", "address", d.control.Addr())
	if address := d.control.ConsoleAddr(); address != "" {
		d.serve("console", d.control.ServeConsole)
		d.log.Info("listening", "what", "console", "address", address)
	}
	if d.metricsOn != nil {
		d.serve("metrics", func() error { return d.metrics.Serve(d.metricsOn) })
		d.log.Info("listening", "what", "metrics", "address", d.metricsOn.Addr().String())
	}
	for _, l := range d.data.Listeners() {
		d.log.Info("listening", "what", "listener", "listener", l.Name, "provider", l.Provider,
			"service", l.Service, "address", l.Address.String())
	}
	d.data.Start()
	d.manager.Start()
	d.registrar.Start()
	d.health.start()
	d.fleet.start(d.control, d.counters(), d.log)
	d.ready.Store(true)
	d.log.Info("ready", "version", versionString())
	d.notify.Ready()
}

// counters are those of the load.
func (d *daemon) counters() telemetry.Counters {
	return telemetry.Counters{Services: d.services.procedures, Listeners: d.data.Stats, Connectors: d.data.Connectors}
}

// phase returns why rdmad does not serve now, or "" while it does.
func (d *daemon) phase() string {
	switch {
	case d.stopping.Load():
		return "stopping"
	case !d.ready.Load():
		return "starting"
	}
	return ""
}

// serve runs a server. If the server ends before stop, the daemon fails.
func (d *daemon) serve(what string, f func() error) {
	d.running.Go(func() {
		err := f()
		if err == nil {
			err = errors.New("ended unasked")
		}
		d.fail(fmt.Errorf("%s: %w", what, err))
	})
}

// fail ends the daemon, unless it is already ending.
func (d *daemon) fail(err error) {
	if d.stopping.Load() {
		return
	}
	select {
	case d.failed <- err:
	default: // another error came first
	}
}

// wait returns nil when a signal ends ctx, and a *servingError when a server fails.
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

// stop lets calls in flight finish for at most drain, then ends everything. The control plane
// answers until the last connection is down.
func (d *daemon) stop(drain time.Duration) {
	d.fleet.withdraw() // a rollout would halt at what drains from now on
	d.stopping.Store(true)
	d.data.Stopping()
	d.notify.Stopping()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	tcp := make(chan error, 1)
	go func() { tcp <- d.manager.Shutdown(ctx) }()
	unregistered := make(chan struct{})
	go func() {
		defer close(unregistered)
		d.fleet.leave()
		d.unregister()
	}()
	d.waitsFor.Store("calls in flight, or a change of services, listeners or limits")
	for _, err := range []error{d.data.Shutdown(ctx), <-tcp} {
		if err != nil {
			d.log.Warn("not everything was finished in time", "error", err)
		}
	}
	d.waitsFor.Store("etcd or rpcbind")
	<-unregistered
	d.close()
	d.waitsFor.Store("servers")
	d.running.Wait()
}

// unregister removes the registrations from rpcbind, so that no new clients come.
func (d *daemon) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := d.registrar.Close(ctx); err != nil {
		d.log.Warn("still registered with rpcbind", "error", err)
	}
}

// close closes the existing parts of a daemon, in the order of their dependencies.
func (d *daemon) close() {
	d.stopping.Store(true)
	d.fleet.leave()
	if d.health != nil {
		d.waitsFor.Store("checks of exports and peers")
		d.health.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	d.waitsFor.Store("connections")
	if d.manager != nil {
		if err := d.manager.Shutdown(ctx); err != nil {
			d.log.Warn("connections cut off", "error", err)
		}
	}
	if d.data != nil {
		if err := d.data.Shutdown(ctx); err != nil {
			d.log.Warn("connections cut off", "error", err)
		}
	}
	d.waitsFor.Store("the control plane, or the files of settings and of the audit log")
	if d.control != nil {
		if err := d.control.Shutdown(ctx); err != nil {
			d.log.Warn("control plane cut off", "error", err)
		}
	}
	d.fleet.close()
	d.waitsFor.Store("scrapes of the metrics")
	if d.metrics != nil {
		if err := d.metrics.Shutdown(ctx); err != nil {
			d.log.Warn("metrics cut off", "error", err)
		}
	}
	if d.metricsOn != nil {
		d.metricsOn.Close()
	}
	d.waitsFor.Store("services and their files, or a change that is being stored")
	if d.manager != nil {
		d.manager.Close()
	}
	d.waitsFor.Store("RDMA devices")
	d.providers.Close(d.log)
	if d.state != nil {
		d.state.close()
	}
	d.memory.Close()
}

// works checks, for the service manager's watchdog, that the control plane answers and that
// the locks for accepting and ending connections are free. It does not wait for disks or
// peers.
func (d *daemon) works(ctx context.Context) error {
	d.data.Listeners()
	d.data.Connections()
	return d.control.Check(ctx)
}

package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Service answers calls, over RDMA through listeners and possibly over TCP. Its Maker has
// bound its address.
type Service interface {
	// Handler answers calls after Open.
	oncrpc.Handler
	// Open opens directories and files, until ctx ends. It is called once, before Start.
	Open(ctx context.Context) error
	// Start begins to serve over TCP, if the service does, and returns.
	Start()
	// TCP returns the bound address. It is invalid without TCP. Sockets returns its socket.
	TCP() netip.AddrPort
	Sockets() []net.Listener
	// Registrations returns the service's registrations for an RDMA address.
	Registrations(rdma netip.AddrPort) []rpcbind.Registration
	// Shutdown lets calls over TCP finish until ctx ends.
	Shutdown(ctx context.Context) error
	// Close frees everything. No more calls may come over RDMA.
	Close() error
}

// Maker makes a service of one kind and binds its addresses. It waits until the file systems answer
// that Open will use, until ctx ends. If an address fails, the error is an *AddressError; if a file
// system does not answer, an *OpenError.
type Maker func(ctx context.Context, s *spec.Service) (Service, error)

// Registrar registers services with rpcbind.
type Registrar interface {
	// Check returns an error if these registrations exclude each other.
	Check(list []rpcbind.Registration) error
	// Set replaces all registrations. On an error it replaces none.
	Set(list []rpcbind.Registration) error
}

// Config configures a Manager. Changed and Limits are optional.
type Config struct {
	Dataplane Dataplane
	// Provider returns the provider of a name in Providers and makes it at first use. It
	// is called by one goroutine at a time.
	Provider  func(name string) (rdmacm.Provider, error)
	Providers []string
	Kinds     map[string]Maker // by spec.Service.Kind
	Bindings  *ulb.Registry    // of the programs that connectors carry
	Registrar Registrar
	// Changed has the changes that operators made to the file's elements and limits before the
	// last stop. Limits are the file's limits. Bounds applies limits.
	Changed spec.Changes
	Limits  spec.Limits
	Bounds  Bounds
	// Needed returns a *NeededError if the configuration file needs a listener or connector of a name,
	// and does not have it itself; nil means that it needs none.
	Needed func(name string) error
	// Room returns an error if n services, listeners and connectors together are too many.
	// Counted is called when their number may have changed. Neither may call the Manager, except
	// that Counted may call Connecting.
	Room    func(n int) error
	Counted func(n int)
	Logger  *slog.Logger
}

// Manager adds and removes services, listeners and connectors.
//
// Lock order: op, counting, then mu. op is held while addresses are bound, directories opened and
// additions stored, but not during anything that may take longer. mu is never held while
// waiting.
type Manager struct {
	API
	cfg Config
	log *slog.Logger

	op       turn          // serializes changes
	patience time.Duration // see patience
	store    Store         // nil before Restore
	starting *Change       // between Configure and Open
	file     *spec.All     // the elements of the file in force; nil before Open
	started  bool          // under op
	imports  uint64        // number of imports that are stored; under op
	retiring sync.WaitGroup
	counting sync.Mutex // serializes calls of Counted

	ending context.Context // when it has ended, no change begins, and none waits for anything
	end    context.CancelFunc

	mu         sync.Mutex
	limits     limits
	services   *set[spec.Service, Serving]
	listeners  *set[spec.Listener, dataplane.ListenerInfo]
	connectors *set[spec.Connector, dataplane.ConnectorInfo]
}

// group is a set of any kind.
type group interface {
	startAll()
	closeAll()
	keepLocked(all *spec.All)
	exportLocked(out *Exported)
	countLocked() int
}

// patience is how long a change may wait for names, addresses and file systems. Others wait for it. The
// start has no limit.
const patience = 10 * time.Second

// New returns a manager without services, listeners and connectors.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, log: cfg.Logger, op: make(turn, 1), patience: patience, limits: newLimits(cfg.Limits, cfg.Changed.Limits)}
	m.ending, m.end = context.WithCancel(context.Background())
	if err := m.limits.trouble; err != nil {
		m.log.Error("limits that were set before are not in force", "error", err, "remedy", "set them again: rdmactl limits set")
	}
	m.services = newSet(m, "service", services{m}, func(a *spec.All) *[]spec.Service { return &a.Services },
		func(c *spec.Changes) (*map[string]spec.Delta, *[]string) { return &c.Services, &c.Removed.Services },
		func(c *Change) *part[spec.Service, Serving] { return c.services })
	m.listeners = newSet(m, "listener", listeners{m}, func(a *spec.All) *[]spec.Listener { return &a.Listeners },
		func(c *spec.Changes) (*map[string]spec.Delta, *[]string) { return &c.Listeners, &c.Removed.Listeners },
		func(c *Change) *part[spec.Listener, dataplane.ListenerInfo] { return c.listeners })
	m.connectors = newSet(m, "connector", connectors{m}, func(a *spec.All) *[]spec.Connector { return &a.Connectors },
		func(c *spec.Changes) (*map[string]spec.Delta, *[]string) { return &c.Connectors, &c.Removed.Connectors },
		func(c *Change) *part[spec.Connector, dataplane.ConnectorInfo] { return c.connectors })
	m.API = API{m.services, m.listeners, m.connectors, boundsOf{m}, m.Export}
	return m
}

// groups returns all sets, each after those on which it depends.
func (m *Manager) groups() []group { return []group{m.services, m.listeners, m.connectors} }

// Configure binds the addresses in the configuration file, which must be checked. If an element
// that an operator changed is not available, Configure logs that, and lists the element as
// failed. After an error, which is ChangeErrors, the caller must call Close.
func (m *Manager) Configure(ctx context.Context, file *spec.All) error {
	m.op.Lock()
	defer m.op.Unlock()
	return m.configure(ctx, file)
}

func (m *Manager) configure(ctx context.Context, file *spec.All) error {
	for {
		m.starting = m.toFile(file)
		err := m.starting.bind(ctx)
		if err == nil || !m.starting.giveUp() {
			return err
		}
		m.starting.discard()
	}
}

// Open opens the services' directories and files, until ctx ends. It comes after Configure, so that an
// address in use leaves no directory behind.
func (m *Manager) Open(ctx context.Context) error {
	m.op.Lock()
	defer m.op.Unlock()
	for {
		c := m.starting
		m.starting = nil
		err := c.open(ctx)
		if err == nil {
			return c.commit(nil)
		}
		if !c.giveUp() {
			return err
		}
		if err := m.configure(ctx, c.file); err != nil {
			return err
		}
	}
}

// Restore restores what operators added, and stores later additions in store. Whatever can't
// be restored is logged and stays in the list as failed. The error concerns only the store.
func (m *Manager) Restore(ctx context.Context, store Store) error {
	m.op.Lock()
	defer m.op.Unlock()
	saved, err := store.Load()
	if err != nil {
		return fmt.Errorf("services and listeners added before: %w", err)
	}
	m.store, m.imports = store, saved.Imports
	m.services.restore(ctx, &saved)
	m.retryListeners(ctx)
	m.listeners.restore(ctx, &saved)
	m.connectors.restore(ctx, &saved)
	m.counted()
	return nil
}

// save stores what kept returned. The caller holds op.
func (m *Manager) save(all spec.All) error {
	if m.store == nil {
		return nil
	}
	if err := m.store.Save(all); err != nil {
		return &StoreError{err}
	}
	return nil
}

// kept returns what operators added and changed, as it is to be stored. The caller holds op.
func (m *Manager) kept() spec.All {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keptLocked()
}

// keptLocked is kept with mu held, too.
func (m *Manager) keptLocked() (all spec.All) {
	for _, g := range m.groups() {
		g.keepLocked(&all)
	}
	all.Changed.Limits, all.Imports = m.limits.kept(), m.imports
	return all
}

// count returns the number of services, listeners and connectors.
func (m *Manager) count() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups() {
		n += g.countLocked()
	}
	return n
}

// counted calls Counted with the current number.
func (m *Manager) counted() {
	m.counting.Lock()
	defer m.counting.Unlock()
	m.cfg.Counted(m.count())
}

// Start makes services serve over TCP, and connectors accept. Later additions start at once.
func (m *Manager) Start() {
	m.op.Lock()
	defer m.op.Unlock()
	for _, g := range m.groups() {
		g.startAll()
	}
	m.started = true
}

// Shutdown refuses further changes. Until ctx ends, it waits for a change that is being stored, and
// lets the TCP clients of all services and connectors finish their calls. After that, the error has
// the number of connector clients that were cut. The data plane ends the listeners.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.settle(ctx.Done())
	var ending sync.WaitGroup
	var err error
	ending.Go(func() { _, err = m.services.drainAll(ctx) })
	cut, _ := m.connectors.drainAll(ctx)
	ending.Wait()
	if cut > 0 {
		err = errors.Join(err, &dataplane.CutError{Count: cut, Err: context.Cause(ctx)})
	}
	return err
}

// settle makes every further change fail, and the current one if it waits for names, addresses or file systems of exports.
// One that is being stored ends in order: settle waits for it until over is closed.
func (m *Manager) settle(over <-chan struct{}) {
	m.end()
	if m.op.wait(over) {
		m.op.Unlock()
	}
}

// Changing reports whether a change is being made: after Shutdown, one that waits for the disk.
func (m *Manager) Changing() bool { return len(m.op) > 0 }

// Close frees everything. No more calls may come over RDMA. Close may be called more than
// once.
func (m *Manager) Close() {
	m.settle(nil)
	if m.starting != nil { // Open was not called
		m.starting.discard()
		m.starting = nil
	}
	for _, g := range slices.Backward(m.groups()) {
		g.closeAll()
	}
	m.retiring.Wait()
}

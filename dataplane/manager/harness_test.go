package manager

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drainTime is longer than any test.
const drainTime = time.Hour

// rig is a manager with what it stands on. Services of kind nfs are fakes
// that keep track of what is open.
type rig struct {
	*Manager
	t        *testing.T
	data     *dataplane.Dataplane
	provider rdmacm.Provider
	store    *memoryStore
	rpcbind  *fakeRegistrar
	log      *logtest.Log

	mu      sync.Mutex
	open    map[string]*fakeService // the newest that is not closed yet, by name
	openErr error                   // of Open
	missing string                  // a directory
	waits   chan struct{}           // closed when a change waits for hungPath or hungOpenPath; nil for nobody

	fileLimits spec.Limits
	bounds     spec.Limits // applied last
	boundsErr  error       // of CheckLimits
}

// CheckLimits implements Bounds.
func (r *rig) CheckLimits(*spec.Limits) error { return r.boundsErr }

// CheckMemory implements Bounds.
func (r *rig) CheckMemory(limit spec.Size, listeners int) error {
	return dataplane.CheckListeners(listeners, memoryOf(&spec.Limits{Memory: limit}))
}

// ApplyLimits implements Bounds.
func (r *rig) ApplyLimits(l, _ *spec.Limits) { r.bounds = *l }

// newRig makes a running manager of nothing. Everything must be free in the
// end.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, store: new(memoryStore), provider: refereetest.Around(t, loopback.New(loopback.Config{}))}
	t.Cleanup(func() {
		if err := r.provider.Close(); err != nil {
			t.Errorf("provider: %v", err)
		}
	})
	r.boot(&spec.All{})
	return r
}

// boot starts a manager as a daemon would, with what the store has.
func (r *rig) boot(file *spec.All) {
	r.t.Helper()
	r.log = new(logtest.Log)
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.data, r.rpcbind, r.open = dataplane.New(dataplane.Config{Logger: log, Memory: int64(r.fileLimits.Memory)}), new(fakeRegistrar), make(map[string]*fakeService)
	r.Manager = New(Config{
		Dataplane: Over(r.data),
		Provider: func(name string) (rdmacm.Provider, error) {
			if name != "loopback" {
				return nil, errors.New("no such provider")
			}
			return r.provider, nil
		},
		Providers: []string{"loopback"},
		Kinds:     map[string]Maker{"echo": r.make, "nfs": r.make},
		Registrar: r.rpcbind,
		Changed:   r.store.saved.Changed,
		Limits:    r.fileLimits,
		Bounds:    r,
		Needed:    func(string) error { return nil },
		Room:      func(int) error { return nil },
		Counted:   func(int) {},
		Logger:    log,
	})
	m, data, open := r.Manager, r.data, r.open
	r.t.Cleanup(func() { r.halt(m, data, open) })
	ctx := r.t.Context()
	if err := errors.Join(m.Configure(ctx, file), m.Open(ctx), m.Restore(ctx, r.store)); err != nil {
		r.t.Fatal(err)
	}
	data.Start()
	m.Start()
}

// restart is reboot with connectors.
func (r *rig) restart(file *spec.All) {
	r.t.Helper()
	r.halt(r.Manager, r.data, r.open)
	r.boot(file)
}

// reboot ends the manager and starts another.
func (r *rig) reboot(services []spec.Service, listeners []spec.Listener) {
	r.t.Helper()
	r.restart(&spec.All{Services: services, Listeners: listeners})
}

func (r *rig) halt(m *Manager, data *dataplane.Dataplane, open map[string]*fakeService) {
	ctx := context.Background()
	if err := errors.Join(data.Shutdown(ctx), m.Shutdown(ctx)); err != nil {
		r.t.Error(err)
	}
	m.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range open {
		r.t.Errorf("service %s was not closed", name)
	}
}

// dial connects to a listener and waits until the data plane has seen it.
func (r *rig) dial(l ListenerInfo) *rpcrdma.Client {
	r.t.Helper()
	events := r.data.Subscribe(64)
	defer events.Close()
	c, err := rpcrdma.Dial(r.t.Context(), r.provider, l.Live.Address.String(), rpcrdma.DialConfig{MemoryLimit: 1 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	for e := range events.Events() {
		if e.Type == dataplane.ConnUp && e.Conn.PeerPort == c.Info().Local {
			break
		}
	}
	return c
}

func (r *rig) null(c *rpcrdma.Client) error {
	return c.Call(r.t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcNull})
}

func (r *rig) removeService(name string, drain time.Duration) error {
	_, err := r.Services.Remove(r.t.Context(), name, drain)
	return err
}

// listener describes one listener; nothing if there is none of that name.
func (r *rig) listener(name string) ListenerInfo { return r.listeners.info(name) }

func (r *rig) addEcho(name string) {
	r.t.Helper()
	if _, err := r.Services.Add(r.t.Context(), echoService(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) addListener(l spec.Listener) ListenerInfo {
	r.t.Helper()
	info, err := r.Listeners.Add(r.t.Context(), l)
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

func echoService(name string) spec.Service { return spec.Service{Name: name, Echo: &spec.Echo{}} }

func onLoopback(name, service string) spec.Listener {
	return spec.Listener{Name: name, Provider: "loopback", Address: "127.0.0.1:0", Service: service}
}

// names are those of the listeners, with the state of those that are not up.
func (r *rig) names() string {
	var out []string
	for _, l := range r.Listeners.List() {
		name := l.Spec.Name + "/" + l.Origin.String()
		if l.State != StateUp {
			name += "/" + l.State
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// fakeService is an echo service that says whether it is open.
type fakeService struct {
	*echo.Service
	r        *rig
	name     string
	path     string // of kind nfs
	tcp      netip.AddrPort
	open     map[string]*fakeService
	before   *fakeService // of the same name
	closed   bool
	opened   bool
	started  bool
	shutdown func(ctx context.Context) error // nil has nothing to wait for
	hold     chan struct{}                   // calls wait for it; nil doesn't hold them
	entered  chan struct{}
	deaf     bool // calls that are held don't end with their connection
}

// hungPath is a directory whose file system does not answer.
const hungPath = "/hung"

// slowPath is a directory whose file system answers when the time of the change is over.
const slowPath = "/slow"

// hungOpenPath is one whose file system does not answer when it is opened.
const hungOpenPath = "/hung/open"

func (r *rig) make(ctx context.Context, s *spec.Service) (Service, error) {
	if s.NFS != nil && s.NFS.Path == hungPath {
		r.wait(ctx)
		return nil, &OpenError{What: "service", Name: s.Name, Err: ctx.Err()}
	}
	if s.NFS != nil && s.NFS.Path == slowPath {
		<-ctx.Done()
	}
	if s.NFS != nil && s.NFS.TCPListen == "taken:1" {
		return nil, &AddressError{What: "service " + s.Name + ": tcp_listen", Address: s.NFS.TCPListen, Err: errors.New("taken"), InUse: true}
	}
	f := &fakeService{Service: echo.New(), r: r, name: s.Name, open: r.open}
	if s.NFS != nil {
		f.path = s.NFS.Path
		f.tcp, _ = netip.ParseAddrPort(s.NFS.TCPListen)
		if f.tcp.IsValid() && f.tcp.Port() == 0 {
			f.tcp = netip.AddrPortFrom(f.tcp.Addr(), 40001)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.before = r.open[s.Name]
	r.open[s.Name] = f
	return f, nil
}

// wait waits as for a file system that does not answer.
func (r *rig) wait(ctx context.Context) {
	if r.waits != nil {
		close(r.waits)
	}
	<-ctx.Done()
}

func (r *rig) service(name string) *fakeService {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[name]
}

func (f *fakeService) ServeRPC(ctx context.Context, c *oncrpc.Call, reply *oncrpc.Reply) error {
	if f.hold != nil {
		f.entered <- struct{}{}
		if f.deaf {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-f.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return f.Service.ServeRPC(ctx, c, reply)
}

func (f *fakeService) Open(ctx context.Context) error {
	if f.path == hungOpenPath {
		f.r.wait(ctx)
		return ctx.Err()
	}
	f.opened = f.r.openErr == nil
	if f.path != "" && f.path == f.r.missing {
		return errors.New("no such directory")
	}
	return f.r.openErr
}

func (f *fakeService) Start()                  { f.started = true }
func (f *fakeService) Sockets() []net.Listener { return nil }
func (f *fakeService) TCP() netip.AddrPort     { return f.tcp }

func (f *fakeService) Registrations(a netip.AddrPort) []rpcbind.Registration {
	return []rpcbind.Registration{{Program: echo.Program, Version: echo.Version, Transport: rpcbind.RDMA, Address: a}}
}

func (f *fakeService) Shutdown(ctx context.Context) error {
	if f.shutdown != nil {
		return f.shutdown(ctx)
	}
	return nil
}

func (f *fakeService) Close() error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	if f.closed {
		f.r.t.Errorf("service %s was closed twice", f.name)
	}
	f.closed = true
	newest := f.open[f.name]
	for newest != nil && newest.closed {
		newest = newest.before
	}
	if f.open[f.name] = newest; newest == nil {
		delete(f.open, f.name)
	}
	return nil
}

// memoryStore is a disk that may be full.
type memoryStore struct {
	saved  spec.All
	err    error
	during func() // called while something is being saved; nil does nothing
}

func (s *memoryStore) Load() (spec.All, error) { return s.saved, nil }

func (s *memoryStore) Save(v spec.All) error {
	if s.during != nil {
		s.during()
	}
	if s.err == nil {
		s.saved = v
	}
	return s.err
}

// fakeRegistrar stores the last registrations.
type fakeRegistrar struct {
	list []rpcbind.Registration
	err  error
}

func (f *fakeRegistrar) Check([]rpcbind.Registration) error { return f.err }

func (f *fakeRegistrar) Set(list []rpcbind.Registration) error {
	if f.err == nil {
		f.list = list
	}
	return f.err
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}

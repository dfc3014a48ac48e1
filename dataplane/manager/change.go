package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// Change is a set of additions, replacements, updates and removals of services, listeners and
// connectors that is made completely or not at all. The start, a reload and every command use
// one.
//
// prepare binds every address and opens every directory that the change needs, while all that
// is in service stays as it is. commit then only moves names, which can't fail. discard frees
// what was prepared. The caller holds Manager.op from prepare to the end of commit or discard.
type Change struct {
	m          *Manager
	services   *part[spec.Service, Serving]
	listeners  *part[spec.Listener, dataplane.ListenerInfo]
	connectors *part[spec.Connector, dataplane.ConnectorInfo]
	heirs      map[*listening]bool // listeners whose address is taken over
	file       *spec.All           // the version of the file to which it leads; nil for others
	imports    bool                // it leads to the lists or limits that an operator wants
	limits     *spec.Limits        // of that version, or those that the operator wants; nil if they stay
	memory     int64               // limit before the change, if the change needs a higher one; else 0
	failures   ChangeErrors

	limitsBefore limits // after listLocked
}

// piece is a part of any kind.
type piece interface {
	bind(ctx context.Context)
	open(ctx context.Context)
	listLocked(forget bool)
	unlistLocked()
	giveUp(f *Failure) bool
	isChanged(f *Failure) bool
	changes() []ElementChange
	enter()
	discard()
	socketsLocked() []net.Listener
	drain(ctx context.Context, all *sync.WaitGroup)
	free()
}

func (m *Manager) newChange() *Change {
	c := &Change{m: m, heirs: make(map[*listening]bool)}
	c.services, c.listeners, c.connectors = newPart(c, m.services), newPart(c, m.listeners), newPart(c, m.connectors)
	return c
}

// pieces returns all parts, each after those on which it depends.
func (c *Change) pieces() []piece { return []piece{c.services, c.listeners, c.connectors} }

func (c *Change) fail(what, name string, err error) {
	c.failures = append(c.failures, Failure{What: what, Name: name, Err: err})
}

// prepare binds and opens everything. On an error nothing is left of it. The error is
// ChangeErrors or ErrShutdown.
func (c *Change) prepare(ctx context.Context) error {
	if c.m.started {
		wait := c.m.patience
		if end, ok := ctx.Deadline(); ok { // the reason is to come before the caller gives up
			wait = min(wait, time.Until(end)*4/5)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, errAllTime)
		defer cancel()
		defer context.AfterFunc(c.m.ending, cancel)()
	}
	if err := c.bind(ctx); err != nil && !errors.As(err, new(ChangeErrors)) {
		return err
	}
	err := c.open(ctx)
	if err != nil && c.m.ending.Err() != nil {
		return dataplane.ErrShutdown
	}
	return err
}

// bind binds all addresses.
func (c *Change) bind(ctx context.Context) error {
	if c.m.ending.Err() != nil {
		return dataplane.ErrShutdown
	}
	if !c.mayListen() {
		return c.failed()
	}
	var sockets []net.Listener
	c.m.mu.Lock()
	for _, p := range c.pieces() {
		sockets = append(sockets, p.socketsLocked()...)
	}
	c.m.mu.Unlock()
	ctx = tcpaddr.Yield(ctx, sockets)
	for _, p := range c.pieces() {
		p.bind(ctx)
	}
	if len(c.failures) == 0 {
		c.mayRegister()
	}
	return c.failed()
}

// open opens all directories and files. After an error, also of bind, it frees what was
// prepared.
func (c *Change) open(ctx context.Context) error {
	for _, p := range c.pieces() {
		p.open(ctx)
	}
	err := c.failed()
	if err != nil {
		c.discard()
	}
	return err
}

func (c *Change) failed() error {
	for i := range c.failures {
		f := &c.failures[i]
		f.Changed = f.What == "limits" && c.memoryChanged() || slices.ContainsFunc(c.pieces(), func(p piece) bool { return p.isChanged(f) })
	}
	if len(c.failures) > 0 {
		return c.failures
	}
	return nil
}

// late reports whether elements that failed took all the time. Then errors of other elements mean nothing.
func (c *Change) late(ctx context.Context) bool { return len(c.failures) > 0 && ctx.Err() != nil }

// blamed returns the error of an element. A file system whose turn came when the time was over is not to blame: elements
// before it took the time, without a failure.
func blamed(ctx context.Context, over bool, err error) error {
	if open, ok := errors.AsType[*OpenError](err); ok && over {
		open.Err = fmt.Errorf("%w: %w", ErrNotTried, context.Cause(ctx))
	}
	return err
}

// discard frees what was prepared.
func (c *Change) discard() {
	for _, p := range slices.Backward(c.pieces()) {
		p.discard()
	}
	if c.memory > 0 {
		c.m.cfg.Dataplane.SetMemory(c.memory)
	}
}

// commit makes the change. store stores what is to be there after it for the next start; nil if
// that is not to be done. If it fails the change is discarded. Replaced and removed elements accept
// no more; the caller then retires them.
func (c *Change) commit(store func(spec.All) error) error {
	if store != nil {
		if err := store(c.kept()); err != nil {
			c.discard()
			return err
		}
	}
	c.m.mu.Lock()
	c.listLocked(store != nil)
	c.m.mu.Unlock()
	if c.file != nil {
		c.m.file = c.file
	}
	for _, p := range c.pieces() {
		p.enter()
	}
	if c.registers() {
		c.m.register()
	}
	c.m.counted()
	return nil
}

// kept returns what is to be stored with the change. The lists have the change for that moment
// only: until it is stored it is not made, and what is being removed may end meanwhile.
func (c *Change) kept() spec.All {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.listLocked(true)
	defer c.unlistLocked()
	return c.m.keptLocked()
}

// giveUp lists elements that can't be had as failed, because an operator changed them or the
// service that they need. It reports whether there were any. The rest of the file can then be
// tried again.
func (c *Change) giveUp() (some bool) {
	for i := range c.failures {
		for _, p := range c.pieces() {
			some = p.giveUp(&c.failures[i]) || some
		}
	}
	return some
}

func (c *Change) listLocked(forget bool) {
	for _, p := range c.pieces() {
		p.listLocked(forget)
	}
	c.limitsBefore = c.m.limits
	switch {
	case c.limits == nil:
	case c.imports:
		c.m.limits.changeLocked(c.limits)
	default:
		c.m.limits = c.m.limits.with(*c.limits)
	}
}

// unlistLocked undoes listLocked.
func (c *Change) unlistLocked() {
	c.m.limits = c.limitsBefore
	for _, p := range c.pieces() {
		p.unlistLocked()
	}
}

// registers reports whether the change concerns a listener that is registered with rpcbind.
func (c *Change) registers() bool {
	p := c.listeners
	return slices.ContainsFunc(p.edits, func(e *edit[spec.Listener]) bool { return e.want.RPCBind || e.old != nil && e.old.spec.RPCBind }) ||
		slices.ContainsFunc(p.gone, func(t *thing[spec.Listener]) bool { return t.spec.RPCBind })
}

// mayRegister reports a failure if the listeners can't be registered together.
func (c *Change) mayRegister() {
	if !c.registers() {
		return
	}
	c.m.mu.Lock()
	c.listLocked(false)
	list := c.m.registrationsLocked()
	c.unlistLocked()
	c.m.mu.Unlock()
	if err := c.m.cfg.Registrar.Check(list); err != nil {
		name := ""
		for _, e := range c.listeners.edits {
			if e.want.RPCBind {
				name = e.want.Name
			}
		}
		c.fail("listener", name, &InvalidError{Field: "rpcbind", Text: strings.TrimPrefix(err.Error(), "rpcbind: ")})
	}
}

// retire drains replaced and removed elements for at most drain, and frees them. The caller
// does not hold op.
func (c *Change) retire(drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range c.pieces() {
		p.drain(ctx, &all)
	}
	all.Wait()
	for _, p := range slices.Backward(c.pieces()) {
		p.free() // no listener uses a service any more
	}
	c.m.counted()
}

// follow replaces the listeners of replaced services that the change does not concern yet. It
// also makes the listeners of the file that failed with the service.
func (c *Change) follow() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	p := c.listeners
	for _, name := range sortedKeys(p.things) {
		t := p.things[name]
		if (t.state == StateUp || t.failedOfFile()) && c.services.replaces(t.spec.Service) && !p.concerns(t) {
			p.turn(t, t.spec, true)
		}
	}
}

// service returns the service that a listener of the change will use. broken means that it
// can't be prepared, which is reported already.
func (c *Change) service(name string) (t *thing[spec.Service], broken bool) {
	for _, e := range c.services.edits {
		if e.want.Name == name && !e.amend {
			return e.fresh, e.fresh == nil
		}
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	t = c.m.services.things[name]
	if t == nil || t.state != StateUp || slices.Contains(c.services.gone, t) {
		return nil, false
	}
	return t, false
}

// mayForget returns why a listener or connector can't go, because the configuration file needs one of
// its name. A new version of the file was checked whole.
func (c *Change) mayForget(name string) error {
	if c.file != nil || c.listeners.adds(name) || c.connectors.adds(name) {
		return nil
	}
	return c.m.cfg.Needed(name)
}

// heldAt returns a listener that gives up an address, or nil.
func (c *Change) heldAt(l *spec.Listener) *listening {
	for _, t := range c.listeners.leavers() {
		r, ok := t.running.(*listening)
		if ok && t.state == StateUp && t.spec.Provider == l.Provider && !c.heirs[r] &&
			(t.spec.Address == l.Address && t.spec.Name == l.Name || r.bound.String() == l.Address) {
			c.heirs[r] = true
			return r
		}
	}
	return nil
}

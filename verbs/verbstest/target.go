package verbstest

import (
	"cmp"
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Target is a provider under test. Its devices report their features (verbs.DeviceAttr).
type Target struct {
	// New returns two new providers that can connect to each other, or one twice. The suite
	// closes them.
	New func(t testing.TB) (active, passive rdmacm.Provider)
	// Listen is an address on which the passive provider may listen, "127.0.0.1:0" if
	// empty.
	Listen string
	// MaxPrivateData is the largest private data that the provider carries. 0 means
	// rdmacm.MaxPrivateData.
	MaxPrivateData int
	// MaxReplyData and MaxRejectData are the largest private data of acceptances and
	// rejections. 0 means MaxPrivateData.
	MaxReplyData, MaxRejectData int
	// PadsPrivateData means that private data may arrive longer than it was sent, with
	// bytes of zero (InfiniBand).
	PadsPrivateData bool
	// Connections is the number of connections of the test that opens many. 0 means 1000.
	Connections int
	// NoTerminate means that QP.Err does not report the peer's Terminate. This is assumed
	// where Sends wait for Receives (InfiniBand).
	NoTerminate bool
	// Faults are tests, and subtests as "test/subtest", that the device fails, with the
	// reason. They are omitted.
	Faults map[string]string
}

// env is the environment of one test of the suite.
type env struct {
	*testing.T
	target          Target
	active, passive rdmacm.Provider
	ln              rdmacm.Listener
	attr            verbs.DeviceAttr // of the passive device
}

func newEnv(t *testing.T, target Target) *env {
	t.Helper()
	target.Listen = cmp.Or(target.Listen, "127.0.0.1:0")
	target.MaxPrivateData = cmp.Or(target.MaxPrivateData, rdmacm.MaxPrivateData)
	target.MaxReplyData = cmp.Or(target.MaxReplyData, target.MaxPrivateData)
	target.MaxRejectData = cmp.Or(target.MaxRejectData, target.MaxPrivateData)
	target.Connections = cmp.Or(target.Connections, 1000)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	e := &env{T: t, target: target}
	e.active, e.passive = target.New(t)
	e.attr = e.passive.Device().Attr()
	t.Cleanup(func() { CloseProvider(t, e.passive) })
	if e.active != e.passive {
		t.Cleanup(func() { CloseProvider(t, e.active) })
	}
	e.ln = e.listen()
	return e
}

func (e *env) listen() rdmacm.Listener {
	e.Helper()
	ln, err := e.passive.Listen(e.Context(), e.target.Listen)
	Must(e, err)
	e.Cleanup(func() { Must(e, ln.Close()) })
	return ln
}

// pair connects the two providers.
func (e *env) pair(o Options) *Pair {
	e.Helper()
	return connect(e, e.active, e.ln, o)
}

// side makes the objects for an identifier, until the test ends.
func (e *env) side(id rdmacm.ID, o Options) *Side {
	e.Helper()
	s, err := NewSide(e, id, o, nil, nil)
	Must(e, err)
	e.Cleanup(s.Close)
	return s
}

// patience returns a context for what a test waits for.
func (e *env) patience() context.Context {
	ctx, cancel := context.WithTimeout(e.Context(), Patience)
	e.Cleanup(cancel)
	return ctx
}

// sub runs f as a subtest with the same providers.
func (e *env) sub(name string, f func(*env)) {
	e.Run(name, func(t *testing.T) {
		sub := *e
		sub.T = t
		f(&sub)
	})
}

// CloseProvider closes a provider and fails the test over whatever was left
// open on its device.
func CloseProvider(t TB, p rdmacm.Provider) {
	t.Helper()
	if c, ok := p.Device().(verbs.LiveCounter); ok {
		if l := c.Live(); l.Total() != 0 {
			t.Errorf("%s: objects left: %+v", p.Name(), l)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("%s: close: %v", p.Name(), err)
	}
}

// faulty reports that the device is known to fail a test.
func (target *Target) faulty(name string) bool {
	_, known := target.Faults[name]
	return known
}

func (e *env) windows() bool     { return e.attr.MemWindowType2B }
func (e *env) terminates() bool  { return !e.target.NoTerminate && !e.attr.ReceiverNotReady }
func (e *env) invalidates() bool { return e.attr.SendInvalidate && e.windows() }

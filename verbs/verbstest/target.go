package verbstest

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Target is a provider under test. What its devices can do is asked of them
// (verbs.DeviceAttr).
type Target struct {
	// New makes two fresh providers that reach each other, or one twice. The
	// suite closes them.
	New func(t testing.TB) (active, passive rdmacm.Provider)
	// Listen is an address at which the passive provider may listen,
	// "127.0.0.1:0" when empty.
	Listen string
	// MaxPrivateData is what the provider carries, rdmacm.MaxPrivateData
	// when 0.
	MaxPrivateData int
	// MaxReplyData and MaxRejectData are what acceptances and rejections
	// carry, MaxPrivateData when 0.
	MaxReplyData, MaxRejectData int
	// PadsPrivateData says that what arrives may be longer than what was
	// sent, by bytes of zero (InfiniBand).
	PadsPrivateData bool
	// Connections of the test that opens many, 1000 when 0.
	Connections int
	// NoTerminate says that QP.Err does not tell the peer's Terminate. It is
	// taken for granted where Sends wait for Receives (InfiniBand).
	NoTerminate bool
	// Faults are tests, and subtests as "test/subtest", that the device fails
	// for reasons of its own, with the reason. They are left out.
	Faults map[string]string
}

// env is what one test of the suite works with.
type env struct {
	*testing.T
	target          Target
	active, passive rdmacm.Provider
	ln              rdmacm.Listener
	attr            verbs.DeviceAttr // of the passive device
}

func newEnv(t *testing.T, target Target) *env {
	t.Helper()
	setDefault(&target.Listen, "127.0.0.1:0")
	setDefault(&target.MaxPrivateData, rdmacm.MaxPrivateData)
	setDefault(&target.MaxReplyData, target.MaxPrivateData)
	setDefault(&target.MaxRejectData, target.MaxPrivateData)
	setDefault(&target.Connections, 1000)
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
	must(e, err)
	e.Cleanup(func() { must(e, ln.Close()) })
	return ln
}

// pair connects the two providers.
func (e *env) pair(o Options) *Pair {
	e.Helper()
	return connect(e, e.active, e.ln, o)
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

// faulty says that the device is known to fail a test.
func (target *Target) faulty(name string) bool {
	_, known := target.Faults[name]
	return known
}

func (e *env) windows() bool     { return e.attr.MemWindowType2B }
func (e *env) terminates() bool  { return !e.target.NoTerminate && !e.attr.ReceiverNotReady }
func (e *env) invalidates() bool { return e.attr.SendInvalidate && e.windows() }

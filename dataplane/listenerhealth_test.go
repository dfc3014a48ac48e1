package dataplane

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A listener is degraded as long as its provider reports a problem. The log shows when that
// began and ended.
func TestListenerHealth(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	f := &verbstest.Monitored{Provider: p.p}
	if _, err := p.add(ListenerConfig{Name: "nfs", Provider: f, Address: "127.0.0.1:0", Handler: echo.New()}); err != nil {
		t.Fatal(err)
	}
	expect := func(state, trouble string) {
		t.Helper()
		if l := p.Listeners()[0]; l.State != state || l.Trouble != trouble {
			t.Errorf("it is %s (%s), not %s (%s)", l.State, l.Trouble, state, trouble)
		}
	}
	expect(StateUp, "")
	f.Listener.SetHealth(errors.New("port 1 of rxe0 is DOWN"))
	expect(StateDegraded, "port 1 of rxe0 is DOWN")
	p.log.Await(t, `listener degraded" listener=nfs reason="port 1 of rxe0 is DOWN"`)
	f.Listener.SetHealth(errors.New("device removed"))
	expect(StateDegraded, "device removed")
	p.log.Await(t, `reason="device removed"`)
	f.Listener.SetHealth(nil)
	expect(StateUp, "")
	p.log.Await(t, `listener healthy again" listener=nfs`)
	f.Listener.SetHealth(errors.New("device removed"))
	p.listener("nfs").Remove(t.Context())
}

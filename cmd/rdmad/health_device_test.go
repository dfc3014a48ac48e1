package main

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// A listener's port goes down and its device disappears; both return.
func TestListenerAndDeviceConditions(t *testing.T) {
	p := admit(t, t.TempDir(), "services: [{name: test, echo: {}}]\n")
	var mu sync.Mutex
	port, there := "ACTIVE", true
	set := func(state string, exists bool) {
		mu.Lock()
		defer mu.Unlock()
		port, there = state, exists
	}
	devices = func() []inventory.Device {
		mu.Lock()
		defer mu.Unlock()
		if !there {
			return nil
		}
		return []inventory.Device{{Name: "rxe0", Ports: []inventory.Port{{Number: 1, State: port}}}}
	}
	t.Cleanup(func() { devices = providers.Devices })
	software, err := p.provider("softiwarp")
	p.must(err)
	adapter := &verbstest.Monitored{Provider: software}
	p.opening.Lock()
	p.providers["softiwarp"], p.providers["adapter"] = adapter, software
	p.opening.Unlock()
	t.Cleanup(func() { delete(p.providers, "adapter") })
	if _, err := p.manager.Listeners.Add(t.Context(), spec.Listener{Name: "nfs", Provider: "softiwarp", Address: apart, Service: "test"}); err != nil {
		t.Fatal(err)
	}
	p.health.follow()
	p.expect("nfs", conditions.ListenerUp)
	p.expect("rxe0", conditions.DeviceActive)
	p.well()
	adapter.Listener.SetHealth(errors.New("port 1 of rxe0 is DOWN"))
	set("DOWN", true)
	p.expect("nfs", conditions.ListenerUnreachable)
	p.expect("rxe0", conditions.DeviceDown)
	if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "not ready\n") {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	set("", false)
	p.expect("rxe0", conditions.DeviceMissing)
	set("ACTIVE", true)
	adapter.Listener.SetHealth(nil)
	p.expect("nfs", conditions.ListenerUp)
	p.expect("rxe0", conditions.DeviceActive)
	p.well()
}

// TestHungDevice: while a device hangs, services and listeners can be changed, and rdmad ends.
func TestHungDevice(t *testing.T) {
	answer := make(chan struct{})
	devices = func() []inventory.Device {
		<-answer
		return nil
	}
	var p *patient
	t.Cleanup(func() { // after the end of rdmad
		close(answer)
		if p != nil {
			p.health.keeping.Lock() // until the look for devices has ended
			defer p.health.keeping.Unlock()
		}
		devices = providers.Devices
	})
	p = admit(t, t.TempDir(), echoListener)
	t.Cleanup(func() {
		p.opening.Lock()
		defer p.opening.Unlock()
		delete(p.providers, "adapter")
	})
	p.opening.Lock()
	p.providers["adapter"] = p.providers["softiwarp"]
	p.opening.Unlock()
	added := make(chan error, 1)
	go func() {
		_, err := p.manager.Services.Add(t.Context(), spec.Service{Name: "other", Echo: &spec.Echo{}})
		added <- err
	}()
	select {
	case err := <-added:
		p.must(err)
	case <-time.After(time.Minute):
		t.Error("a change waits for the device")
	}
}

// Devices as the kernel shows them.
func TestDevice(t *testing.T) {
	with := func(state, problem string) []inventory.Device {
		return []inventory.Device{{Name: "rxe0", Problem: problem, Ports: []inventory.Port{{Number: 1, State: state}, {Number: 2, State: "DOWN"}}}}
	}
	for _, c := range []struct {
		all  []inventory.Device
		want *conditions.Reason
	}{
		{with("ACTIVE", ""), conditions.DeviceActive},
		{with("DOWN", ""), conditions.DeviceDown},
		{with("ACTIVE", "may not be opened"), conditions.DeviceProblem},
		{nil, conditions.DeviceMissing},
	} {
		if got, text := device("rxe0", c.all); got != c.want || text == "" {
			t.Errorf("got %s: %s, want %s", got.Name, text, c.want.Name)
		}
	}
}

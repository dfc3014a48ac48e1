//go:build rdmacore && cgo

package rdmacore

import (
	"log/slog"
	"testing"
)

// use adds a device to those that a provider uses. Its context is in field of o; use makes one if it is nil.
func use[C any](devices *map[*C]*device, o *openContext, field **C) *device {
	if *devices == nil {
		*devices = make(map[*C]*device)
	}
	if *field == nil {
		*field = new(C)
	}
	d := &device{ctx: o, removed: make(chan struct{})}
	(*devices)[*field] = d
	return d
}

// TestNextDevice: when a device is removed, the provider's device is one that is in use.
func TestNextDevice(t *testing.T) {
	p := &Provider{config: Config{Logger: slog.New(slog.DiscardHandler)}}
	a, b := new(openContext), new(openContext)
	first, other := use(&p.devices, a, &a.c), use(&p.devices, b, &b.c)
	p.first = first
	if p.deviceGone(a); p.Device() != other {
		t.Error("still the one that was removed")
	}
	if p.deviceGone(b); p.Device() != other {
		t.Error("none at all")
	}
}

package main

import (
	"context"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// counter counts what operators add, for the division of descriptors. It refuses
// what there are no descriptors for.
type counter struct {
	places *places
	there  func() int // listeners, services and connectors
	change func()     // called after each count

	adding, counting sync.Mutex // adding first
}

// count divides the descriptors for what is there now.
func (c *counter) count() {
	c.counting.Lock()
	defer c.counting.Unlock()
	c.places.serve(c.there())
	c.change()
}

// added adds one more. Others are added after it.
func added[T any](c *counter, add func() (T, error)) (info T, err error) {
	c.adding.Lock()
	defer c.adding.Unlock()
	if err := c.places.mayServe(c.there() + 1); err != nil {
		return info, err
	}
	if info, err = add(); err == nil {
		c.count()
	}
	return info, err
}

// countedManager counts services and listeners.
type countedManager struct {
	manager.API
	counter *counter
}

func (m countedManager) AddService(ctx context.Context, s manager.ServiceSpec) (manager.ServiceInfo, error) {
	return added(m.counter, func() (manager.ServiceInfo, error) { return m.API.AddService(ctx, s) })
}

func (m countedManager) RemoveService(name string, drain time.Duration) error {
	defer m.counter.count()
	return m.API.RemoveService(name, drain)
}

func (m countedManager) AddListener(ctx context.Context, l manager.ListenerSpec) (manager.ListenerInfo, error) {
	return added(m.counter, func() (manager.ListenerInfo, error) { return m.API.AddListener(ctx, l) })
}

func (m countedManager) RemoveListener(name string, drain time.Duration) (dataplane.Removed, error) {
	defer m.counter.count()
	return m.API.RemoveListener(name, drain)
}

// countedConnectors counts connectors.
type countedConnectors struct {
	manager.ConnectorAPI
	counter *counter
}

func (s countedConnectors) AddConnector(ctx context.Context, c manager.ConnectorSpec) (manager.ConnectorInfo, error) {
	return added(s.counter, func() (manager.ConnectorInfo, error) { return s.ConnectorAPI.AddConnector(ctx, c) })
}

func (s countedConnectors) RemoveConnector(name string, drain time.Duration) (dataplane.Removed, error) {
	defer s.counter.count()
	return s.ConnectorAPI.RemoveConnector(name, drain)
}

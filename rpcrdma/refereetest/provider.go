package refereetest

import (
	"context"
	"sync"

	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Report takes a violation, and the events of the connection before it. It is called from the
// goroutine that uses the connection.
type Report func(v referee.Violation, before string)

// Watch returns a provider whose connections are those of p, with a referee at
// each.
func Watch(p rdmacm.Provider, report Report) rdmacm.Provider {
	return &provider{Provider: p, report: report, devices: map[verbs.Device]verbs.Device{}}
}

type provider struct {
	rdmacm.Provider
	report Report

	mu      sync.Mutex
	devices map[verbs.Device]verbs.Device // a device is known by its identity
}

func (p *provider) Device() verbs.Device { return p.device(p.Provider.Device()) }

func (p *provider) device(d verbs.Device) verbs.Device {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.devices[d]; ok {
		return w
	}
	var w verbs.Device = device{d}
	if r, ok := d.(verbs.Removable); ok {
		w = removable{device{d}, r}
	}
	p.devices[d] = w
	return w
}

func (p *provider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return p.identifier(id, referee.Client), nil
}

func (p *provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := p.Provider.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	if m, ok := l.(rdmacm.Monitored); ok {
		return monitored{listener{l, p}, m}, nil
	}
	if t, ok := l.(rdmacm.OnTCP); ok {
		return onTCP{listener{l, p}, t}, nil
	}
	return listener{l, p}, nil
}

type listener struct {
	rdmacm.Listener
	p *provider
}

type monitored struct {
	listener
	rdmacm.Monitored
}

type onTCP struct {
	listener
	rdmacm.OnTCP
}

func (l listener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	id, err := l.Listener.GetRequest(ctx)
	if err != nil {
		return nil, err
	}
	return l.p.identifier(id, referee.Server), nil
}

// device makes completion queues that the connections' queue pairs watch.
type device struct{ verbs.Device }

type removable struct {
	device
	verbs.Removable
}

func (d device) CreateCQ(depth int) (verbs.CQ, error) {
	cq, err := d.Device.CreateCQ(depth)
	if err != nil {
		return nil, err
	}
	q := &queue{CQ: cq}
	if n, ok := cq.(verbs.Notifier); ok {
		return notifier{q, n}, nil
	}
	return q, nil
}

// Live counts the device's objects; devices without a count have none.
func (d device) Live() verbs.Live {
	if c, ok := d.Device.(verbs.LiveCounter); ok {
		return c.Live()
	}
	return verbs.Live{}
}

// queue shows completions to its queue pair before they are polled.
type queue struct {
	verbs.CQ
	mu sync.Mutex // a completion is seen before the next is polled
	qp *pair
}

// notifier is a queue that notifies.
type notifier struct {
	*queue
	verbs.Notifier
}

// watched is a queue, or that of a notifier.
type watched interface{ watched() *queue }

func (q *queue) watched() *queue { return q }

func (q *queue) Poll(wc []verbs.WC) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.CQ.Poll(wc)
	if q.qp != nil {
		q.qp.completed(wc[:n])
	}
	return n
}

func (q *queue) use(qp *pair) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.qp = qp
}

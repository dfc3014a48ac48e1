package driver

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// Kind is a kind of objects that a device counts.
type Kind uint8

// Kinds of objects.
const (
	PDs Kind = iota
	MRs
	MWs
	CQs
	QPs
	kinds
)

// Device is an opened device: its attributes and the count of its objects. It implements
// verbs.Device, except AllocPD, with completion queues in memory.
type Device struct {
	Attrs  verbs.DeviceAttr // constant
	lastQP atomic.Uint32
	live   [kinds]atomic.Int64

	mu     sync.Mutex
	closed bool
}

// Attr implements verbs.Device.
func (d *Device) Attr() verbs.DeviceAttr { return d.Attrs }

// Live implements verbs.LiveCounter.
func (d *Device) Live() verbs.Live {
	n := func(k Kind) int { return int(d.live[k].Load()) }
	return verbs.Live{PDs: n(PDs), MRs: n(MRs), MWs: n(MWs), CQs: n(CQs), QPs: n(QPs)}
}

// create counts an object, unless the device is closed.
func (d *Device) create(k Kind) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return verbs.ErrClosed
	}
	d.live[k].Add(1)
	return nil
}

// CreatePD makes pd a protection domain of the device. If the provider then fails to create
// it, it calls Free.
func (d *Device) CreatePD(pd *PD) error {
	pd.dev = d
	return d.create(PDs)
}

// CreateCQ implements verbs.Device.
func (d *Device) CreateCQ(depth int) (verbs.CQ, error) {
	c := new(CQ)
	if err := d.InitCQ(c, depth); err != nil {
		return nil, err
	}
	return c, nil
}

// InitCQ makes c a completion queue in memory of the device. A provider calls it for a
// queue that embeds one.
func (d *Device) InitCQ(c *CQ, depth int) error {
	c.token = make(chan struct{}, 1)
	return d.CreateCQBase(&c.CQBase, depth)
}

// CreateCQBase makes c a completion queue of the device. The provider calls Free when
// the device has none.
func (d *Device) CreateCQBase(c *CQBase, depth int) error {
	if depth < 1 || depth > d.Attrs.MaxCQE {
		return fmt.Errorf("completion queue of %d: %w", depth, verbs.ErrInvalid)
	}
	c.dev, c.Depth = d, depth
	return d.create(CQs)
}

// Close implements verbs.Device.
func (d *Device) Close() error {
	_, err := d.Shut()
	return err
}

// Shut closes the device. first is true for the call that closed it. It fails with ErrBusy
// while objects of the device exist.
func (d *Device) Shut() (first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.Live().Total(); n > 0 {
		return false, fmt.Errorf("device %s with %d objects: %w", d.Attrs.Name, n, verbs.ErrBusy)
	}
	first, d.closed = !d.closed, true
	return first, nil
}

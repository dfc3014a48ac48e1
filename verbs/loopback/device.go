package loopback

import (
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Limits of every device; generous, so that consumers meet their own first.
const (
	maxQPWR    = 16384
	maxSGE     = 32
	maxCQE     = 1 << 20
	maxMRSize  = 1 << 40
	maxMsgSize = 1 << 30
	maxReads   = 128
)

// device owns the objects made on one provider.
type device struct {
	attr  verbs.DeviceAttr
	stags stagTable

	mu       sync.Mutex
	live     verbs.Live
	lastQP   uint32
	nextAddr uint64
	closed   bool
}

var _ verbs.LiveCounter = (*device)(nil)

func newDevice(c Config) *device {
	reads := c.MaxReads
	if reads == 0 {
		reads = maxReads
	}
	name := c.DeviceName
	if name == "" {
		name = "loopback0"
	}
	d := &device{
		attr: verbs.DeviceAttr{
			Name:             name,
			Provider:         "loopback",
			MaxQPWR:          maxQPWR,
			MaxSGE:           maxSGE,
			MaxCQE:           maxCQE,
			MaxMRSize:        maxMRSize,
			MaxMsgSize:       maxMsgSize,
			MaxQPRdAtom:      reads,
			MaxQPInitRdAtom:  reads,
			MemWindowType2B:  !c.NoWindows,
			SendInvalidate:   !c.NoSendInvalidate,
			ReceiverNotReady: c.Fabric.transport == InfiniBand,

			ReadSinkRemoteWrite: c.ReadSinkRemoteWrite,
		},
		nextAddr: firstAddr,
	}
	d.stags.entries = make(map[uint32]stag)
	return d
}

func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// Live counts what was made on the device and not closed.
func (d *device) Live() verbs.Live {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live
}

func (d *device) AllocPD() (verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	d.live.PDs++
	return &pd{dev: d}, nil
}

func (d *device) CreateCQ(depth int) (verbs.CQ, error) {
	if depth < 1 || depth > maxCQE {
		return nil, fmt.Errorf("loopback: CQ of %d: %w", depth, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	d.live.CQs++
	return newCQ(d, depth), nil
}

// Close fails with ErrBusy while anything made on the device exists.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live.Total() > 0 {
		return fmt.Errorf("loopback: close device: %w", verbs.ErrBusy)
	}
	d.closed = true
	return nil
}

// pd is a protection domain. Its fields are guarded by dev.mu.
type pd struct {
	dev    *device
	users  int // regions, windows and queue pairs
	closed bool
}

func (p *pd) Close() error {
	p.dev.mu.Lock()
	defer p.dev.mu.Unlock()
	switch {
	case p.closed:
		return nil
	case p.users > 0:
		return fmt.Errorf("loopback: close PD: %w", verbs.ErrBusy)
	}
	p.closed = true
	p.dev.live.PDs--
	return nil
}

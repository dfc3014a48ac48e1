package softiwarp

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// Limits of the device.
const (
	maxQueueDepth = 1 << 15
	maxSGE        = 32
	maxCQDepth    = 1 << 20
	maxMRSize     = 1 << 40
	maxMsgSize    = 1 << 30
	// maxReads bounds RDMA Reads outstanding in one direction, as siw does.
	maxReads = 128
)

// device is the one device of a provider.
type device struct {
	provider *Provider
	name     string
	stags    stagTable
	buffers  buffers

	nextQP atomic.Uint32
	live   struct{ pds, mrs, mws, cqs, qps atomic.Int64 }

	mu     sync.Mutex
	closed bool
}

var (
	_ verbs.Device      = (*device)(nil)
	_ verbs.LiveCounter = (*device)(nil)
)

func newDevice(p *Provider) *device {
	d := &device{provider: p, name: "softiwarp0"}
	d.stags.init()
	d.buffers.init()
	return d
}

func (d *device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Name:            d.name,
		Provider:        ProviderName,
		MaxQPWR:         maxQueueDepth,
		MaxSGE:          maxSGE,
		MaxCQE:          maxCQDepth,
		MaxMRSize:       maxMRSize,
		MaxMsgSize:      maxMsgSize,
		MaxQPRdAtom:     maxReads,
		MaxQPInitRdAtom: maxReads,
		MemWindowType2B: true,
		SendInvalidate:  true,
	}
}

// Live counts the objects of the device that exist.
func (d *device) Live() verbs.Live {
	return verbs.Live{
		PDs: int(d.live.pds.Load()),
		MRs: int(d.live.mrs.Load()),
		MWs: int(d.live.mws.Load()),
		CQs: int(d.live.cqs.Load()),
		QPs: int(d.live.qps.Load()),
	}
}

func (d *device) AllocPD() (verbs.PD, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	d.live.pds.Add(1)
	return &protectionDomain{dev: d}, nil
}

func (d *device) CreateCQ(depth int) (verbs.CQ, error) {
	if depth < 1 || depth > maxCQDepth {
		return nil, fmt.Errorf("completion queue of %d: %w", depth, verbs.ErrInvalid)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, verbs.ErrClosed
	}
	d.live.cqs.Add(1)
	return newCQ(d, depth), nil
}

// Close fails with ErrBusy while objects of the device exist.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	if n := d.Live().Total(); n > 0 {
		return fmt.Errorf("device with %d objects: %w", n, verbs.ErrBusy)
	}
	d.closed = true
	return nil
}

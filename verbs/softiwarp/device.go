package softiwarp

import (
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/lease"
)

// Limits of the device.
const (
	maxQueueDepth = 1 << 15
	maxSGE        = 32
	maxCQDepth    = 1 << 20
	maxMRSize     = 1 << 40
	maxMsgSize    = 1 << 30
	// maxReads bounds the outstanding RDMA Reads in each direction, as Linux siw does.
	maxReads = 128
)

// device is the one device of a provider.
type device struct {
	driver.SoftDevice
	provider *Provider
	buffers  buffers
	held     atomic.Int32 // large buffers of connections that wait within an FPDU
	watch    lease.Watch  // releases the right to read of queue pairs whose reader is away
	inputs   inputs
}

var (
	_ verbs.Device      = (*device)(nil)
	_ verbs.LiveCounter = (*device)(nil)
)

func newDevice(p *Provider) *device {
	d := &device{provider: p}
	d.Attrs = verbs.DeviceAttr{
		Name:            "softiwarp0",
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
	d.buffers.init()
	return d
}

// CreateCQ implements verbs.Device.
func (d *device) CreateCQ(depth int) (verbs.CQ, error) {
	c := new(completionQueue)
	if err := d.InitCQ(&c.CQ, depth); err != nil {
		return nil, err
	}
	return c, nil
}

package loopback

import (
	"cmp"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// Limits of every device. They are large, so that consumers reach their own limits first.
const (
	maxQPWR    = 16384
	maxSGE     = 32
	maxCQE     = 1 << 20
	maxMRSize  = 1 << 40
	maxMsgSize = 1 << 30
	maxReads   = 128
)

// device is the one device of a provider.
type device struct {
	driver.Device
	stags stagTable

	mu       sync.Mutex
	nextAddr uint64
}

var _ verbs.LiveCounter = (*device)(nil)

func newDevice(c Config) *device {
	reads := cmp.Or(c.MaxReads, maxReads)
	d := &device{nextAddr: firstAddr}
	d.Attrs = verbs.DeviceAttr{
		Name:             cmp.Or(c.DeviceName, "loopback0"),
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
	}
	d.stags.entries = make(map[uint32]stag)
	return d
}

// AllocPD implements verbs.Device.
func (d *device) AllocPD() (verbs.PD, error) {
	p := &pd{dev: d}
	if err := d.CreatePD(&p.PD); err != nil {
		return nil, err
	}
	return p, nil
}

// pd is a protection domain.
type pd struct {
	driver.PD
	dev *device
}

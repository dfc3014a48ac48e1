package loopback

import (
	"cmp"

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

// newDevice makes the one device of a provider.
func newDevice(c Config) *driver.SoftDevice {
	reads := cmp.Or(c.MaxReads, maxReads)
	d := &driver.SoftDevice{}
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
	return d
}

//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/notices"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Vendor numbers of the kernel's software adapters, and of Intel's (irdma).
const (
	vendorSIW   = 0x626d74
	vendorRXE   = 0xffffff
	vendorIntel = 0x8086
)

// maxQueueDepth bounds the queues of every device, so that a position fits the number that
// a completion carries.
const maxQueueDepth = 1 << 16

// device is one device as a provider uses it.
type device struct {
	driver.Device
	ctx     *openContext
	config  *Config
	notices *notices.Notices // the provider's
	info    C.struct_rdmad_device
	rings   C.int         // posting makes a system call
	inline  atomic.Uint32 // bytes of inline data that queue pairs ask for

	removed chan struct{} // closed by its provider

	doubted   atomic.Int64 // time of the last doubt
	listening atomic.Bool  // checkHearing is running
	deaf      atomic.Bool
}

var (
	_ verbs.Device      = (*device)(nil)
	_ verbs.LiveCounter = (*device)(nil)
	_ verbs.Removable   = (*device)(nil)
)

func newDevice(c *openContext, p *Provider) *device {
	i := &c.info
	d := &device{ctx: c, config: &p.config, notices: p.notices, info: *i, removed: make(chan struct{})}
	d.inline.Store(mostInline)
	d.Attrs = verbs.DeviceAttr{
		Name:             c.name,
		Provider:         ProviderName,
		MaxQPWR:          min(int(i.max_qp_wr), maxQueueDepth) - spareSends,
		MaxSGE:           int(i.max_sge),
		MaxCQE:           min(int(i.max_cqe), math.MaxInt32),
		MaxMRSize:        uint64(i.max_mr),
		MaxMsgSize:       uint32(i.max_msg),
		MaxQPRdAtom:      min(int(i.max_rd_atom), math.MaxUint8),
		MaxQPInitRdAtom:  min(int(i.max_init_rd_atom), math.MaxUint8),
		MemWindowType2B:  i.mw2b != 0,
		SendInvalidate:   i.send_inv != 0,
		ReceiverNotReady: i.iwarp == 0,

		ReadSinkRemoteWrite: wantsSinks(i) || p.config.Tuning.RegisterSinks,
	}
	if d.is(vendorSIW) || d.is(vendorRXE) {
		d.rings = 1
	}
	return d
}

// Removed implements verbs.Removable.
func (d *device) Removed() <-chan struct{} { return d.removed }

// wantsSinks reports whether the sink of an RDMA Read must be writable by the peer. iWARP
// places the data of an RDMA Read like the data of a Write by the peer (RFC 5040 §4.4).
// siw is the exception: it checks local write access.
func wantsSinks(of *C.struct_rdmad_device) bool {
	return of.iwarp != 0 && uint32(of.vendor) != vendorSIW
}

// destroyed reports whether an object is gone after a command to destroy it. If the device
// is gone, all its objects are.
func (d *device) destroyed(rc C.int) bool { return rc == 0 || rc == C.EIO && d.ctx.isGone() }

// is reports whether the device has this vendor number.
func (d *device) is(vendor uint32) bool { return uint32(d.info.vendor) == vendor }

func (d *device) iwarp() bool { return d.info.iwarp != 0 }

// AllocPD implements verbs.Device.
func (d *device) AllocPD() (verbs.PD, error) {
	if d.ctx.isGone() {
		return nil, verbs.ErrClosed
	}
	pd := &protectionDomain{dev: d}
	if err := d.CreatePD(&pd.PD); err != nil {
		return nil, err
	}
	var err error
	atHome(func() { pd.c, err = C.ibv_alloc_pd(d.ctx.c) })
	if pd.c == nil {
		pd.Free()
		return nil, fmt.Errorf("rdmacore: allocate PD: %w", err)
	}
	return pd, nil
}

// CreateCQ implements verbs.Device. Unsignaled RDMA Reads also take a place in the CQ.
func (d *device) CreateCQ(depth int) (verbs.CQ, error) {
	if d.ctx.isGone() {
		return nil, verbs.ErrClosed
	}
	c := &completionQueue{dev: d}
	if err := d.CreateCQBase(&c.CQBase, depth); err != nil {
		return nil, err
	}
	if err := c.create(); err != nil {
		c.Free()
		return nil, filesError(err)
	}
	return c, nil
}

// Close fails with ErrBusy while objects of the device exist.
func (d *device) Close() error {
	first, err := d.Shut()
	if first {
		d.ctx.release()
	}
	return err
}

// up reports whether a port of the device was up when it was opened.
func (d *device) up() bool { return d.info.state == C.IBV_PORT_ACTIVE }

// mostRetries returns the largest retry count for requests that the peer does not
// acknowledge. For rxe of 6.1 it is lower, because rxe retries forever with 7, as it
// should only for requests without a Receive (rxe_completer).
func (d *device) mostRetries() int {
	if d.is(vendorRXE) {
		return tuning.MaxRetryCount - 1
	}
	return tuning.MaxRetryCount
}

// invalidatedFlag returns the flags that mark a completion whose message has invalidated a
// key. rxe of 6.1 sets the kernel's flag instead of libibverbs'.
func (d *device) invalidatedFlag() C.uint {
	if d.is(vendorRXE) {
		return C.IBV_WC_WITH_INV | 1<<2
	}
	return C.IBV_WC_WITH_INV
}

package verbs

import "context"

// DeviceAttr describes what a device can do (struct ibv_device_attr).
type DeviceAttr struct {
	Name     string // device name, as returned by ibv_get_device_name
	Provider string // softiwarp, rdmacore, loopback

	MaxQPWR          int    // work requests outstanding on one queue
	MaxSGE           int    // scatter/gather entries of one work request
	MaxCQE           int    // completions one CQ can hold
	MaxMRSize        uint64 // bytes of one memory region
	MaxMsgSize       uint32 // bytes of one message
	MaxQPRdAtom      int    // RDMA Reads a peer may have outstanding on one QP (IRD)
	MaxQPInitRdAtom  int    // RDMA Reads one QP may have outstanding itself (ORD)
	MemWindowType2B  bool   // AllocMW and OpBindMW work
	SendInvalidate   bool   // OpSendInvalidate works
	ReceiverNotReady bool   // a Send without a posted Receive waits (RNR NAK) instead of ending the connection
	// ReadSinkRemoteWrite: an RDMA Read sends the peer the key of its sink, which must have
	// AccessRemoteWrite (iWARP, RFC 5040 §4.4): see SinkAccess.
	ReadSinkRemoteWrite bool
}

// SinkAccess returns the rights that a region needs for RDMA Reads into it. If
// AccessRemoteWrite is among them, every peer connected in the same protection domain may
// write there, too. So register such a region for one Read only, and close it when the Read
// has completed.
func (a *DeviceAttr) SinkAccess() Access {
	if a.ReadSinkRemoteWrite {
		return AccessLocalWrite | AccessRemoteWrite
	}
	return AccessLocalWrite
}

// Device is an opened RDMA device (struct ibv_context). All methods may be
// called from any goroutine. Devices of providers written in Go are
// LiveCounters.
type Device interface {
	Attr() DeviceAttr
	AllocPD() (PD, error)
	// CreateCQ makes a completion queue for at least depth completions. If a CQ overflows,
	// every QP that completes into it goes into the error state.
	CreateCQ(depth int) (CQ, error)
	Close() error
}

// Removable is an optional interface of a Device that may be removed while it is in use
// (IBV_EVENT_DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL).
type Removable interface {
	// Removed is closed when the device is removed. Its queue pairs go into QPErr, and
	// nothing can be made on it any more. Its objects must still be closed. The system may
	// wait for that.
	Removed() <-chan struct{}
}

// Access is a set of rights to a memory region or window (enum ibv_access_flags).
type Access uint8

// Access rights, to be combined with |.
const (
	// AccessLocalWrite lets local Receives and RDMA Read responses write into the region.
	// Local requests need no right to read.
	AccessLocalWrite Access = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead
	// AccessMWBind lets windows with any rights be bound to the region, although peers have
	// no rights to the region itself, whose key they may guess (RFC 5042 §5.3). A window
	// for remote writes also needs AccessLocalWrite.
	AccessMWBind
)

// AccessAll has every right that a region can have.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessMWBind

// Binds reports whether a window with rights w may be bound to a region with rights a. A
// window may always have the rights that peers have to the region itself.
func (a Access) Binds(w Access) bool {
	if a&AccessMWBind != 0 && (w&AccessRemoteWrite == 0 || a&AccessLocalWrite != 0) {
		return true
	}
	return a&w == w
}

// PD is a protection domain: memory and queue pairs can be used together only within one.
type PD interface {
	// RegMR registers buf. The region keeps buf alive. Do not reuse buf for anything else
	// before MR.Close. AccessRemoteWrite requires AccessLocalWrite, as in ibv_reg_mr.
	RegMR(buf []byte, access Access) (MR, error)
	// AllocMW allocates a type 2B memory window. It is unbound and has no key until an
	// OpBindMW is posted. It returns ErrNotSupported if the device has none.
	AllocMW() (MW, error)
	Close() error
}

// MR is a registered memory region.
type MR interface {
	// Bytes returns the registered buffer.
	Bytes() []byte
	// Addr returns the address that remote peers use for Bytes()[0]. It may differ from the
	// buffer's virtual address.
	Addr() uint64
	// RKey returns the steering tag (STag) with which a peer accesses the region.
	RKey() uint32
	// Close deregisters the region. When it returns, no peer accesses the buffer any more.
	// It fails with ErrBusy while a window is bound to the region. It may also do so while
	// a posted request uses the region.
	Close() error
}

// MW is a type 2B memory window (InfiniBand specification 10.6.7.2.2): a remotely
// accessible part of a region, for the one queue pair on which it was bound.
// OpLocalInvalidate or the peer's Send With Invalidate revokes it. Closing that queue pair
// revokes it, too. A bound window must be revoked before it is bound again, on the same or
// another queue pair.
type MW interface {
	// RKey returns the key of the last posted OpBindMW, 0 before the first. Each bind makes
	// a new, unpredictable key (RFC 5042 §7.1).
	RKey() uint32
	// Addr returns the remote address of the first bound byte: the bound
	// region's Addr plus the bind's offset.
	Addr() uint64
	// Close revokes the window if it is bound and frees it. It may fail with ErrBusy while a
	// bind of it is posted.
	Close() error
}

// CQ is a completion queue.
type CQ interface {
	// Poll removes up to len(wc) completions, oldest first, without waiting. It returns how
	// many.
	Poll(wc []WC) int
	// Wait returns nil as soon as there is at least one completion to poll.
	// It returns ctx.Err() when ctx ends and ErrClosed when the CQ is
	// closed. One goroutine waits at a time. With a ctx that has ended it takes
	// in what has arrived, without waiting for more.
	//
	// A provider may do its receiving within Wait: read the connection, place data,
	// answer the peer's RDMA Reads. Between two waits these may stand still for up to
	// 20 ms. If no goroutine waits for longer, the provider receives by itself. It
	// never needs Wait to make progress.
	Wait(ctx context.Context) error
	// Close fails with ErrBusy while a queue pair uses the CQ.
	Close() error
}

// Notifier is an optional interface of a CQ. With it, an idle consumer needs no goroutine
// in Wait.
type Notifier interface {
	// ReqNotify runs f once, in a new goroutine, as soon as there is at least one
	// completion to poll (ibv_req_notify_cq). It returns false, and f does not run, if
	// there is one already or the system cannot notify now. A CQ has room for one f, and no
	// goroutine may be in Wait. Wait and Close drop f.
	ReqNotify(f func()) bool
	// Shrink frees storage that only a busy queue needs. The consumer calls it before it
	// rests for long. No goroutine may be in Wait.
	Shrink()
}

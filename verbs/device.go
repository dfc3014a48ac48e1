package verbs

import "context"

// DeviceAttr says what a device can do (struct ibv_device_attr).
type DeviceAttr struct {
	Name     string // device name, as ibv_get_device_name gives it
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
	// ReadSinkRemoteWrite: an RDMA Read tells the peer the key of its sink, which
	// must have AccessRemoteWrite (iWARP, RFC 5040 §4.4): see SinkAccess.
	ReadSinkRemoteWrite bool
}

// SinkAccess are the rights that a region needs for RDMA Reads into it. With
// AccessRemoteWrite among them, whoever the device has connections with in the
// same protection domain may write there too: such a region is best registered
// for one Read, and closed once that has completed.
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
	// CreateCQ makes a completion queue for at least depth completions. A
	// CQ that overflows puts every QP that completes into it into the error
	// state.
	CreateCQ(depth int) (CQ, error)
	Close() error
}

// Removable is an optional interface of a Device that may leave the machine
// while it is in use (IBV_EVENT_DEVICE_FATAL, RDMA_CM_EVENT_DEVICE_REMOVAL).
type Removable interface {
	// Removed is closed when the device is gone: its queue pairs go into QPErr
	// and nothing can be made on it any more. Its objects are still to be
	// closed; the system may wait for that.
	Removed() <-chan struct{}
}

// Access says who may do what with a memory region or window
// (enum ibv_access_flags).
type Access uint8

// Access rights, to be combined with |.
const (
	// AccessLocalWrite lets Receives and RDMA Read responses of the local
	// side write into the region. Reading by local requests needs no right.
	AccessLocalWrite Access = 1 << iota
	AccessRemoteWrite
	AccessRemoteRead
	// AccessMWBind lets windows of any rights be bound to the region, though
	// peers have none to the region itself, whose key they may guess (RFC 5042
	// §5.3). A window that they write to needs AccessLocalWrite as well.
	AccessMWBind
)

// AccessAll is every right that a region can have.
const AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessMWBind

// Binds says whether a window of rights w may be bound to a region of rights a:
// what a region offers peers by itself a window of it may, too.
func (a Access) Binds(w Access) bool {
	if a&AccessMWBind != 0 && (w&AccessRemoteWrite == 0 || a&AccessLocalWrite != 0) {
		return true
	}
	return a&w == w
}

// PD is a protection domain: memory and queue pairs work together only
// within one.
type PD interface {
	// RegMR registers buf. The region keeps buf alive; buf must not be
	// reallocated or handed to others before MR.Close. AccessRemoteWrite
	// requires AccessLocalWrite, as ibv_reg_mr does.
	RegMR(buf []byte, access Access) (MR, error)
	// AllocMW allocates a type 2B memory window: unbound, without a key,
	// until a posted OpBindMW gives it one. ErrNotSupported where the
	// device has none.
	AllocMW() (MW, error)
	Close() error
}

// MR is a registered memory region.
type MR interface {
	// Bytes is the registered buffer.
	Bytes() []byte
	// Addr is the address that remote peers use for Bytes()[0]. It need not
	// be the buffer's virtual address.
	Addr() uint64
	// RKey is the steering tag (STag) under which a peer reaches the region.
	RKey() uint32
	// Close deregisters the region: when it returns nothing of any peer
	// touches the buffer any more. It fails with ErrBusy while a window is
	// bound to the region.
	Close() error
}

// MW is a type 2B memory window (InfiniBand specification 10.6.7.2.2): a
// remotely visible view of part of a region, tied to the one queue pair on
// which it was bound, and revoked by OpLocalInvalidate or by the peer's Send
// With Invalidate. Closing that queue pair frees it too; it can then be bound
// on another. A window that is bound must be revoked before it is bound again.
type MW interface {
	// RKey is the key given by the last OpBindMW posted, 0 before the first.
	// Each bind gives a new, unpredictable key (RFC 5042 §7.1).
	RKey() uint32
	// Addr is the remote address of the first bound byte: the bound
	// region's Addr plus the bind's offset.
	Addr() uint64
	// Close revokes the window if it is bound and frees it.
	Close() error
}

// CQ is a completion queue.
type CQ interface {
	// Poll takes up to len(wc) completions, oldest first, without waiting,
	// and says how many it took.
	Poll(wc []WC) int
	// Wait returns nil as soon as there is at least one completion to poll.
	// It returns ctx.Err() when ctx ends and ErrClosed when the CQ is
	// closed. One goroutine waits at a time.
	Wait(ctx context.Context) error
	// Close fails with ErrBusy while a queue pair uses the CQ.
	Close() error
}

// Notifier is an optional interface of a CQ. It spares a consumer that is idle the
// goroutine in Wait.
type Notifier interface {
	// ReqNotify has f run once, in a new goroutine, as soon as there is at least
	// one completion to poll (ibv_req_notify_cq). It returns false, and f does
	// not run, when there is one already or the system can't notify now. A CQ has
	// room for one f, and no goroutine may be in Wait; Close forgets f.
	ReqNotify(f func()) bool
}

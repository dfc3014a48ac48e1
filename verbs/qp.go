package verbs

// QPState is the state of a queue pair (enum ibv_qp_state; RDMAP's idle,
// RTS, terminate and error states map onto it).
type QPState uint8

// States of a queue pair.
const (
	QPInit QPState = iota // created, not connected: Receives may be posted
	QPRTS                 // ready to send
	QPSQD                 // send queue draining after Disconnect
	QPErr                 // dead: everything posted completes with WCWRFlushErr
)

// QPAttr configures a queue pair (struct ibv_qp_init_attr).
type QPAttr struct {
	SendCQ, RecvCQ CQ  // may be the same
	MaxSendWR      int // limit of requests posted and not yet completed
	MaxRecvWR      int
	MaxSendSGE     int
	MaxRecvSGE     int
	// SigAll makes every send-queue request signaled (sq_sig_all).
	SigAll bool
}

// QP is a reliable-connected queue pair. PostSend and PostRecv may be called from several
// goroutines. The requests of one call stay together and in order.
type QP interface {
	// Num identifies the queue pair on its device, also in WC.QPNum.
	Num() uint32
	State() QPState
	// PostSend posts a list of requests in order and returns how many it accepted. On an
	// error, wrs[n] is the first refused request (bad_wr): ErrQueueFull, ErrInvalid (SGE
	// out of its region, closed region, sink without the needed rights, unknown opcode,
	// foreign PD), or ErrQPState before the QP is connected. In QPErr posting succeeds, and
	// the requests complete with WCWRFlushErr, after all earlier ones. PostSend never waits
	// for the peer. Requests may complete before it returns. Once a completion is polled,
	// its lists' storage may be reused.
	PostSend(wrs []SendWR) (n int, err error)
	// PostRecv posts receives, in any state. Errors are those of PostSend.
	PostRecv(wrs []RecvWR) (n int, err error)
	// Fail moves the QP into QPErr (ibv_modify_qp to IBV_QPS_ERR). The connection ends and
	// everything outstanding is flushed.
	Fail()
	// Err returns why the QP is in QPErr: *TerminateError if either side sent a Terminate,
	// ErrDisconnected after an orderly end, or another error. It is nil in any other state.
	Err() error
	// Close destroys the QP. After it returns nothing accesses the memory of its requests
	// any more. Completions not yet polled are dropped.
	Close() error
}

// Opcode is the operation of a send-queue request (enum ibv_wr_opcode).
type Opcode uint8

// Send-queue requests.
const (
	OpSend Opcode = iota
	OpSendInvalidate
	OpRDMAWrite
	OpRDMARead
	OpLocalInvalidate
	OpBindMW
)

// SendFlags modify a send-queue request (enum ibv_send_flags).
type SendFlags uint8

const (
	// SendSignaled asks for a completion on success. Failures always complete. The slot of
	// an unsignaled request becomes free once a later request of the same queue has
	// completed.
	SendSignaled SendFlags = 1 << iota
	// SendFence delays the request until all earlier RDMA Reads of the queue have
	// completed.
	SendFence
	// SendSolicited sets the solicited event bit.
	SendSolicited
)

// SGE names Length bytes at Offset of a region (struct ibv_sge). It has the region itself
// instead of an address and a local key, so that no look-up is needed.
type SGE struct {
	MR     MR
	Offset int
	Length int
}

// SendWR is a send-queue work request (struct ibv_send_wr).
type SendWR struct {
	ID    uint64 // returned in WC.ID
	Op    Opcode
	Flags SendFlags

	// SGL is the source of Send and Write, and the sink of Read. A sink region needs
	// DeviceAttr.SinkAccess. On iWARP a Read has exactly one entry.
	SGL []SGE

	RemoteAddr uint64 // Write: destination, Read: source
	RKey       uint32 // Write, Read: the peer's key

	// InvalidateRKey is the peer's key for OpSendInvalidate, and our own window's key for
	// OpLocalInvalidate.
	InvalidateRKey uint32

	Bind BindInfo // OpBindMW
}

// BindInfo is what a window is bound to (struct ibv_mw_bind_info).
type BindInfo struct {
	MW     MW
	MR     MR // its rights must allow the bind, see Access.Binds
	Offset int
	Length int
	Access Access // AccessRemoteRead, AccessRemoteWrite or both
}

// RecvWR is a receive work request: the buffers for one incoming Send, filled in order.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

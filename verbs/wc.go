package verbs

// WCStatus is the outcome of a work request (enum ibv_wc_status, same order).
type WCStatus uint8

// Outcomes.
const (
	WCSuccess        WCStatus = iota
	WCLocLenErr               // a message longer than the buffers posted for it
	WCLocQPOpErr              // the QP could not process the request
	WCLocEECOpErr             // unused (EE contexts)
	WCLocProtErr              // an SGE does not name valid memory
	WCWRFlushErr              // outstanding when the QP went into QPErr
	WCMWBindErr               // the window could not be bound
	WCBadRespErr              // an unexpected answer from the peer
	WCLocAccessErr            // local rights do not allow it
	WCRemInvReqErr            // the peer found the request invalid
	WCRemAccessErr            // the peer's rights do not allow it
	WCRemOpErr                // the peer could not complete it
	WCRetryExcErr             // the peer does not answer
	WCRNRRetryExcErr          // the peer had no receive posted
	WCLocRDDViolErr           // unused (reliable datagrams)
	WCRemInvRDReqErr          // unused (reliable datagrams)
	WCRemAbortErr             // aborted by the peer
	WCInvEECNErr              // unused (EE contexts)
	WCInvEECStateErr          // unused (EE contexts)
	WCFatalErr                // the device failed
	WCRespTimeoutErr          // no answer in time
	WCGeneralErr              // anything else
)

var statusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "work request flushed", "memory window bind error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"transport retry count exceeded", "receiver not ready retry count exceeded", "local RDD violation",
	"remote invalid RD request", "remote aborted", "invalid EE context number", "invalid EE context state",
	"fatal error", "response timeout", "general error",
}

// String returns the wording of ibv_wc_status_str, shortened.
func (s WCStatus) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown status"
}

// WCOpcode says what kind of request completed (enum ibv_wc_opcode). It is
// valid only with WCSuccess.
type WCOpcode uint8

// Kinds of completed requests.
const (
	WCSend WCOpcode = iota // OpSend and OpSendInvalidate
	WCRDMAWrite
	WCRDMARead
	WCBindMW
	WCLocalInv
	WCRecv
)

var completed = [...]WCOpcode{
	OpSend: WCSend, OpSendInvalidate: WCSend, OpRDMAWrite: WCRDMAWrite, OpRDMARead: WCRDMARead,
	OpLocalInvalidate: WCLocalInv, OpBindMW: WCBindMW,
}

// Completed returns the kind of completion of a request.
func (op Opcode) Completed() WCOpcode { return completed[op] }

// WC is a work completion (struct ibv_wc). On failure only ID, Status and
// QPNum are valid.
type WC struct {
	ID      uint64
	Status  WCStatus
	Op      WCOpcode
	QPNum   uint32
	ByteLen int // WCRecv, WCRDMARead: bytes received
	// Invalidated is our key that the peer's Send With Invalidate revoked;
	// valid when WithInvalidate is set (IBV_WC_WITH_INV).
	Invalidated    uint32
	WithInvalidate bool
}

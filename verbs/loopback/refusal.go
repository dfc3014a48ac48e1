package loopback

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// refusal is why a request of the peer was not executed: the Terminate of RFC 5040 §4.8,
// and the status with which the request completes if it has not completed yet.
type refusal struct {
	layer, typ, code uint8
	reason           string
	status           verbs.WCStatus
}

// Layers and error types of RFC 5040 §4.8 and RFC 5041 §8.2.
const (
	layerRDMAP, typeProtection         = 0, 1
	layerDDP, typeTagged, typeUntagged = 1, 1, 2
)

// The refusals of a request that names memory, by the outcome of its check. DDP checks Writes, RDMAP
// checks Reads.
var (
	writeRefusals = [...]refusal{
		driver.BadSTag:       {layerDDP, typeTagged, 0x00, "invalid STag", verbs.WCRemAccessErr},
		driver.OutOfBounds:   {layerDDP, typeTagged, 0x01, "base or bounds violation", verbs.WCRemAccessErr},
		driver.NotAssociated: {layerDDP, typeTagged, 0x02, "STag not associated with this stream", verbs.WCRemAccessErr},
		driver.Wraps:         {layerDDP, typeTagged, 0x03, "tagged offset wrap", verbs.WCRemAccessErr},
		driver.NoRight:       {layerRDMAP, typeProtection, 0x02, "access rights violation", verbs.WCRemAccessErr},
	}
	readRefusals = [...]refusal{
		driver.BadSTag:       {layerRDMAP, typeProtection, 0x00, "invalid STag", verbs.WCRemAccessErr},
		driver.OutOfBounds:   {layerRDMAP, typeProtection, 0x01, "base or bounds violation", verbs.WCRemAccessErr},
		driver.NoRight:       {layerRDMAP, typeProtection, 0x02, "access rights violation", verbs.WCRemAccessErr},
		driver.NotAssociated: {layerRDMAP, typeProtection, 0x03, "STag not associated with this stream", verbs.WCRemAccessErr},
		driver.Wraps:         {layerRDMAP, typeProtection, 0x04, "tagged offset wrap", verbs.WCRemAccessErr},
	}
	cannotInvalidate = refusal{layerRDMAP, typeProtection, 0x09, "STag cannot be invalidated", verbs.WCRemInvReqErr}
	noReceive        = refusal{layerDDP, typeUntagged, 0x02, "no receive posted", verbs.WCRNRRetryExcErr}
	messageTooLong   = refusal{layerDDP, typeUntagged, 0x05, "message too long for the receive", verbs.WCRemInvReqErr}
	localFailure     = refusal{layerRDMAP, 0, 0x00, "local catastrophic error", verbs.WCRemOpErr}
)

// err returns the reason of the queue pair that ends. InfiniBand has no Terminate.
func (r *refusal) err(t Transport, remote bool) error {
	if t == InfiniBand {
		who := "local"
		if remote {
			who = "remote"
		}
		return fmt.Errorf("%s side: %s", who, r.reason)
	}
	return &verbs.TerminateError{Remote: remote, Layer: r.layer, Type: r.typ, Code: r.code, Reason: r.reason}
}

// Reasons of QP.Err that no protocol defines.
var (
	errAborted   = errors.New("connection aborted by peer")
	errDestroyed = errors.New("queue pair destroyed")
	errDropped   = errors.New("connection dropped by fault injection")
	errInjected  = errors.New("request failed by fault injection")
	errDrain     = errors.New("peer took too long to take what was sent")
)

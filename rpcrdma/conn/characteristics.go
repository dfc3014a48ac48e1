package conn

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// transmissionLimit bounds the transmissions of one group with
// extensions.continuation on: those of a request that we take and those of a
// response that we make.
const transmissionLimit = 8

// characteristics are those that settings and receives of so many bytes make.
func (s *Settings) characteristics(receive uint32) rpcrdma2.Values {
	v := rpcrdma2.DefaultValues()
	v.ReceiveSize, v.Invalidation = receive, s.RemoteInvalidationAccept
	if !s.Backchannel() {
		v.Backward = rpcrdma2.BackwardNone
	}
	if s.Extensions.Has(ExtXmit) {
		v.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse
	}
	if s.Extensions.Has(ExtContinuation) {
		v.RTR |= rpcrdma2.RTRContinue
		v.RequestReceive, v.ResponseSend = transmissionLimit, transmissionLimit
	}
	return v
}

package oncrpc

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// AppendAcceptedReply appends the header of a successful reply with an
// AUTH_NONE verifier. The results follow.
func AppendAcceptedReply(dst []byte, xid uint32) []byte {
	return appendAccepted(dst, xid, Success)
}

// AppendAcceptError appends the whole reply for e.
func AppendAcceptError(dst []byte, xid uint32, e *AcceptError) []byte {
	dst = appendAccepted(dst, xid, e.Stat)
	if e.Stat == ProgMismatch {
		dst = xdr.AppendUint32s(dst, e.Low, e.High)
	}
	return dst
}

func appendAccepted(dst []byte, xid uint32, stat AcceptStat) []byte {
	dst = appendReply(dst, xid, msgAccepted)
	dst = appendAuth(dst, Auth{})
	return xdr.AppendUint32(dst, uint32(stat))
}

// AppendDenied appends the whole reply for e.
func AppendDenied(dst []byte, xid uint32, e *DeniedError) []byte {
	dst = xdr.AppendUint32(appendReply(dst, xid, msgDenied), uint32(e.Stat))
	if e.Stat == RPCMismatch {
		return xdr.AppendUint32s(dst, e.Low, e.High)
	}
	return xdr.AppendUint32(dst, uint32(e.Auth))
}

func appendReply(dst []byte, xid uint32, stat replyStat) []byte {
	dst = xdr.AppendUint32(dst, xid)
	dst = xdr.AppendUint32(dst, uint32(MsgReply))
	return xdr.AppendUint32(dst, uint32(stat))
}

// AppendError appends the whole reply for err: an *AcceptError or a *DeniedError with its
// status, any other error as SYSTEM_ERR. A nil pointer that a handler returns as its error
// is such another one.
func AppendError(dst []byte, xid uint32, err error) []byte {
	if e, _ := errors.AsType[*DeniedError](err); e != nil {
		return AppendDenied(dst, xid, e)
	}
	if e, _ := errors.AsType[*AcceptError](err); e != nil && e.Stat != Success {
		return AppendAcceptError(dst, xid, e)
	}
	return appendAccepted(dst, xid, SystemErr)
}

// ReplyHeader is the header of a reply.
type ReplyHeader struct {
	XID uint32
	// Verf is the server's verifier; its body aliases the message.
	Verf Auth
}

// DecodeReply decodes the reply header at the start of msg and returns its length: the
// results are msg[n:]. For an unsuccessful reply the error is an *AcceptError or
// *DeniedError, and h.XID is set. It is ErrMalformed if msg is not a reply, ends within the
// header or has values unknown to RFC 5531.
func DecodeReply(msg []byte, h *ReplyHeader) (n int, err error) {
	xid, mtype, ok := MessageType(msg)
	if !ok || mtype != MsgReply {
		return 0, ErrMalformed
	}
	*h = ReplyHeader{XID: xid}
	d := xdr.NewDecoder(msg[peekSize:])
	switch replyStat(d.Uint32()) {
	case msgAccepted:
		err = decodeAccepted(&d, h)
	case msgDenied:
		err = decodeDenied(&d)
	default:
		err = ErrMalformed
	}
	if d.Err() != nil {
		return 0, ErrMalformed
	}
	return peekSize + d.Offset(), err
}

func decodeAccepted(d *xdr.Decoder, h *ReplyHeader) error {
	h.Verf = decodeAuth(d, &Padding{}, ErrMalformed)
	switch stat := AcceptStat(d.Uint32()); stat {
	case Success:
		return nil
	case ProgMismatch:
		return &AcceptError{Stat: stat, Low: d.Uint32(), High: d.Uint32()}
	case ProgUnavail, ProcUnavail, GarbageArgs, SystemErr:
		return &AcceptError{Stat: stat}
	default:
		return ErrMalformed
	}
}

func decodeDenied(d *xdr.Decoder) error {
	switch stat := RejectStat(d.Uint32()); stat {
	case RPCMismatch:
		return &DeniedError{Stat: stat, Low: d.Uint32(), High: d.Uint32()}
	case AuthError:
		return &DeniedError{Stat: stat, Auth: AuthStat(d.Uint32())}
	default:
		return ErrMalformed
	}
}

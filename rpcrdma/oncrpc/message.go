package oncrpc

import (
	"encoding/binary"
	"errors"
)

// RPCVersion is the RPC protocol version that this package speaks.
const RPCVersion = 2

// MsgType distinguishes calls and replies (msg_type, RFC 5531 §9).
type MsgType uint32

// Message types.
const (
	MsgCall  MsgType = 0
	MsgReply MsgType = 1
)

// replyStat is whether a call was accepted (reply_stat, RFC 5531 §9).
type replyStat uint32

const (
	msgAccepted replyStat = 0
	msgDenied   replyStat = 1
)

// Authentication flavors (RFC 5531 §8.2, RFC 9289 §4.1).
const (
	FlavorNone  = 0
	FlavorSys   = 1
	FlavorShort = 2
	FlavorDH    = 3
	FlavorGSS   = 6 // RPCSEC_GSS
	FlavorTLS   = 7 // asks whether the connection can have TLS
)

// MaxAuthBody is the largest body of a credential or a verifier, in bytes (RFC 5531 §8.2).
const MaxAuthBody = 400

// Sizes in bytes.
const (
	// AcceptedReplySize is what AppendAcceptedReply appends.
	AcceptedReplySize = 24

	offXID     = 0
	offMsgType = 4
	peekSize   = 8
)

// ErrMalformed means that the bytes are not an RPC message of the expected kind, or end
// within its header. No reply is possible.
var ErrMalformed = errors.New("oncrpc: malformed RPC message")

// MessageType reads the XID and the message type. ok is false if msg is too short or the
// type is unknown.
func MessageType(msg []byte) (xid uint32, mtype MsgType, ok bool) {
	if len(msg) < peekSize {
		return 0, 0, false
	}
	xid = binary.BigEndian.Uint32(msg[offXID:])
	mtype = MsgType(binary.BigEndian.Uint32(msg[offMsgType:]))
	return xid, mtype, mtype <= MsgReply
}

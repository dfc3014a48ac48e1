package mpa

import "encoding/binary"

const (
	// EnhancedSize is the length of the enhanced data in bytes (RFC 6581).
	EnhancedSize = 4
	// MaxDepth is the largest IRD or ORD that a frame can hold.
	MaxDepth = depthUnknown - 1

	// depthUnknown as IRD or ORD means that the sender does not negotiate that depth
	// (RFC 6581).
	depthUnknown = 0x3fff

	bitPeerToPeer = 0x8000 // A, in the IRD word
	bitRTRSend    = 0x4000 // B, in the IRD word
	bitRTRWrite   = 0x8000 // C, in the ORD word
	bitRTRRead    = 0x4000 // D, in the ORD word
)

// RTR is a set of kinds of ready-to-receive indication: the first FPDU of the initiator of
// a peer-to-peer connection, after which the responder may send (RFC 6581).
type RTR uint8

// Kinds of ready-to-receive indication.
const (
	RTRSend RTR = 1 << iota
	RTRWrite
	RTRRead
)

// Enhanced is the data that RFC 6581 puts before the consumer's private data.
type Enhanced struct {
	IRD, ORD   uint16 // most RDMA Reads at once, inbound and outbound; at most MaxDepth
	PeerToPeer bool   // A: the initiator will send an RTR indication
	// RTR has the kinds that the initiator can send (in a request), or the kind that
	// the responder chose (in a reply).
	RTR RTR
}

// Append appends the encoded data to b. Depths over MaxDepth are clamped.
func (e Enhanced) Append(b []byte) []byte {
	ird, ord := min(e.IRD, MaxDepth), min(e.ORD, MaxDepth)
	if e.PeerToPeer {
		ird |= bitPeerToPeer
	}
	if e.RTR&RTRSend != 0 {
		ird |= bitRTRSend
	}
	if e.RTR&RTRWrite != 0 {
		ord |= bitRTRWrite
	}
	if e.RTR&RTRRead != 0 {
		ord |= bitRTRRead
	}
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}

// decodeEnhanced decodes the first EnhancedSize bytes of b. A depth that the peer does
// not negotiate decodes as MaxDepth, so it sets no limit.
func decodeEnhanced(b []byte) Enhanced {
	ird := binary.BigEndian.Uint16(b)
	ord := binary.BigEndian.Uint16(b[2:])
	e := Enhanced{
		IRD:        min(ird&depthUnknown, MaxDepth),
		ORD:        min(ord&depthUnknown, MaxDepth),
		PeerToPeer: ird&bitPeerToPeer != 0,
	}
	if ird&bitRTRSend != 0 {
		e.RTR |= RTRSend
	}
	if ord&bitRTRWrite != 0 {
		e.RTR |= RTRWrite
	}
	if ord&bitRTRRead != 0 {
		e.RTR |= RTRRead
	}
	return e
}

// Choose returns the indication that a responder asks for: the cheapest one offered, in
// the order Write, Read, Send. If the request offers none, Choose returns the Write, as
// Linux siw does.
func (r RTR) Choose() RTR {
	for _, kind := range [...]RTR{RTRWrite, RTRRead, RTRSend} {
		if r&kind != 0 {
			return kind
		}
	}
	return RTRWrite
}

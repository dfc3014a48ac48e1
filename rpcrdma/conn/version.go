package conn

import (
	"math/bits"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// version holds the differences between protocol versions. The rest of this package is the
// same for all versions.
type version interface {
	number() uint32
	// decode, size and append are the codec of the version's headers.
	decode(h *Header, b []byte) (n int, err error)
	size(h *Header) int
	append(h *Header, dst []byte) []byte
	// empty is the size of a header with three empty lists, in bytes.
	empty() int
	// direction returns the direction of a message with a valid header, if it can be known.
	// body follows the header.
	direction(h *Header, body []byte) (d rpcrdma2.Direction, known bool)
	// malformed is direction for a message with an invalid header.
	malformed(msg []byte) (d rpcrdma2.Direction, known bool)
	// threshold is the Send size, in bytes, that every receiver takes once the version is
	// agreed on.
	threshold() uint32
	// pads reports whether the version has RDMA_MSGP, acknowledges whether it has
	// RDMA_DONE.
	pads() bool
	acknowledges() bool
	// linux reports whether Linux servers speak this version. Calls then avoid their
	// faults.
	linux() bool
}

// version1 is RFC 8166 and, where turned on, RFC 5666.
type version1 struct{}

func (version1) number() uint32 { return rpcrdma1.Version }

func (version1) decode(h *Header, b []byte) (int, error) {
	h.Direction, h.Option, h.Info = 0, 0, nil
	return h.Header.Header.Decode(b)
}

func (version1) size(h *Header) int                  { return h.Header.Header.Size() }
func (version1) append(h *Header, dst []byte) []byte { return h.Header.Header.Append(dst) }

func (version1) empty() int         { return emptyHeaderSize }
func (version1) threshold() uint32  { return settings.InlineMin }
func (version1) pads() bool         { return true }
func (version1) acknowledges() bool { return true }
func (version1) linux() bool        { return true }

// direction uses the type of the RPC message. It is unknown when the RPC message is in a
// chunk (RFC 8167).
func (version1) direction(h *Header, body []byte) (d rpcrdma2.Direction, known bool) {
	switch h.Proc {
	case rpcrdma1.Error:
		return rpcrdma2.Reply, true
	case rpcrdma1.Done:
		return rpcrdma2.Call, true
	case rpcrdma1.Msg, rpcrdma1.MsgP:
		return directionOf(body)
	}
	return 0, false
}

// malformed finds the RPC message behind lists that are longer than we accept.
func (version1) malformed(msg []byte) (d rpcrdma2.Direction, known bool) {
	body, ok := rpcrdma1.Message(msg)
	if !ok {
		return 0, false
	}
	return directionOf(body)
}

// directionOf returns the direction of an RPC message.
func directionOf(body []byte) (d rpcrdma2.Direction, known bool) {
	_, mtype, ok := oncrpc.MessageType(body)
	if mtype == oncrpc.MsgReply {
		d = rpcrdma2.Reply
	}
	return d, ok
}

// version2 is draft-cel-nfsv4-rpcrdma-version-two-01.
type version2 struct{}

func (version2) number() uint32 { return rpcrdma2.Version }

func (version2) decode(h *Header, b []byte) (int, error) { return h.Decode(b) }
func (version2) size(h *Header) int                      { return h.Header.Size() }
func (version2) append(h *Header, dst []byte) []byte     { return h.Header.Append(dst) }
func (version2) empty() int                              { return emptyHeaderSize + directionSize }
func (version2) threshold() uint32                       { return rpcrdma2.DefaultReceiveSize }
func (version2) pads() bool                              { return false }
func (version2) acknowledges() bool                      { return false }
func (version2) linux() bool                             { return false }

// direction reads a header field. An error needs none: it is always a reply.
func (version2) direction(h *Header, _ []byte) (d rpcrdma2.Direction, known bool) {
	if h.Proc == rpcrdma2.Error {
		return rpcrdma2.Reply, true
	}
	return h.Direction, true
}

// malformed reads the direction field. It is at the same place in all types that have it,
// even if the rest of the header is invalid.
func (version2) malformed(msg []byte) (d rpcrdma2.Direction, known bool) {
	return rpcrdma2.DirectionOf(msg)
}

// versionOf returns the version with number n. For an unknown version it returns version 1,
// whose prefix all versions share.
func versionOf(n uint32) version {
	if n == rpcrdma2.Version {
		return version2{}
	}
	return version1{}
}

// EmptyHeader returns the size of a transport header without chunks, in bytes, for a
// version of RPC-over-RDMA.
func EmptyHeader(version int) uint32 { return uint32(versionOf(uint32(version)).empty()) }

// versions is a set of versions, as bits. It is never empty.
type versions uint8

const (
	speaks1   versions = 1 << rpcrdma1.Version
	speaks2   versions = 1 << rpcrdma2.Version
	speaksAll          = speaks1 | speaks2
)

// only returns the set that holds version n.
func only(n uint32) versions { return 1 << n }

func (v versions) has(n uint32) bool { return n <= rpcrdma2.Version && v&(1<<n) != 0 }

// low and high are the range that ERR_VERS reports.
func (v versions) low() uint32  { return uint32(bits.TrailingZeros8(uint8(v))) }
func (v versions) high() uint32 { return uint32(bits.Len8(uint8(v)) - 1) }

// any returns one version of the set.
func (v versions) any() version { return versionOf(v.low()) }

// Package wire implements what RPC-over-RDMA puts on the wire outside of its versioned
// transport headers: the private data that the connection manager exchanges at connect. The
// headers of each version are in packages below it.
//
// The caller must pass the private data as the provider delivers it, without the parts of
// lower layers (MPA's enhanced connection parameters). The values are fixed for the life of
// the connection.
package wire

import "encoding/binary"

// Layout of the CM private data (RFC 8797 §4): 8 bytes, not XDR.
const (
	PrivateDataSize = 8

	privateDataMagic   = 0xf6ab0e18 // Format Identifier
	privateDataVersion = 1

	offMagic       = 0
	offVersion     = 4
	offFlags       = 5
	offSendSize    = 6
	offReceiveSize = 7

	// flagRemoteInvalidation is bit 15 of RFC 8797 §5.1.
	flagRemoteInvalidation = 0x01
)

// Sizes that the private data can express, in bytes. They are multiples of SizeUnit.
const (
	SizeUnit    = 1024
	MinSize     = SizeUnit       // also the default of a peer that announces nothing
	MaxSize     = 256 * SizeUnit // encoded as 255
	DefaultSize = MinSize
)

// PrivateData is what a peer announces at connect (RFC 8797).
type PrivateData struct {
	// RemoteInvalidation means that the sender supports remote invalidation of any STag
	// that it presents.
	RemoteInvalidation bool
	// SendSize is the largest RDMA Send that the sender makes, in bytes.
	SendSize uint32
	// ReceiveSize is the largest RDMA Send that the sender takes, in bytes.
	ReceiveSize uint32
}

// DefaultPrivateData returns the values of a peer that sent none (RFC 8797 §4.1).
func DefaultPrivateData() PrivateData {
	return PrivateData{SendSize: DefaultSize, ReceiveSize: DefaultSize}
}

// Append appends the 8 bytes of p. Sizes are rounded down to a multiple of SizeUnit, and
// limited to MinSize and MaxSize.
func (p PrivateData) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, privateDataMagic)
	var flags byte
	if p.RemoteInvalidation {
		flags |= flagRemoteInvalidation
	}
	return append(dst, privateDataVersion, flags, encodeSize(p.SendSize), encodeSize(p.ReceiveSize))
}

// ParsePrivateData reads a peer's private data. ok is false if b is not RPC-over-RDMA
// private data of version 1: missing, short, or with another format identifier or version.
// The result is then the default. Bytes after the eighth and reserved flags are ignored.
func ParsePrivateData(b []byte) (p PrivateData, ok bool) {
	if len(b) < PrivateDataSize ||
		binary.BigEndian.Uint32(b[offMagic:]) != privateDataMagic ||
		b[offVersion] != privateDataVersion {
		return DefaultPrivateData(), false
	}
	return PrivateData{
		RemoteInvalidation: b[offFlags]&flagRemoteInvalidation != 0,
		SendSize:           decodeSize(b[offSendSize]),
		ReceiveSize:        decodeSize(b[offReceiveSize]),
	}, true
}

// encodeSize encodes a size as in RFC 8797 §5.2: (bytes/1024)-1.
func encodeSize(size uint32) byte {
	size = min(max(size, MinSize), MaxSize)
	return byte(size/SizeUnit - 1)
}

func decodeSize(b byte) uint32 {
	return (uint32(b) + 1) * SizeUnit
}

package cli

import "encoding/binary"

// Blocks of pcapng as rdmad writes them: little-endian (draft-ietf-opsawg-pcapng §3.1).
const (
	blockHead      = 8 // type and total length
	enhancedPacket = 6
)

// firstPackets is the part of data, which is whole blocks, up to the n-th
// packet. It ends before data that is no block.
func firstPackets(data []byte, n uint64) []byte {
	at := 0
	for n > 0 && len(data)-at >= blockHead {
		kind, length := binary.LittleEndian.Uint32(data[at:]), binary.LittleEndian.Uint32(data[at+4:])
		if length < blockHead || uint64(length) > uint64(len(data)-at) {
			break
		}
		at += int(length)
		if kind == enhancedPacket {
			n--
		}
	}
	return data[:at]
}

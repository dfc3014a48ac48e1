package oncrpc

// Padding describes the padding of an RDMA_MSGP message (RFC 5666 §3.9). The data of each
// opaque of Thresh bytes or more has padding before it, so that it begins at a multiple of
// Align, counted from the start of the Send. The zero value means no padding.
type Padding struct {
	Align  uint32 // in bytes, a power of two; 0 means no padding
	Thresh uint32 // bytes
	// Base is the offset of the stream in the Send, in bytes.
	Base uint32
}

// Before returns the number of padding bytes at off of the stream, before the data of an
// opaque of n bytes. It is a multiple of 4 if off and Base are.
func (p *Padding) Before(off, n int) int {
	if p.Align == 0 || uint32(n) < p.Thresh {
		return 0
	}
	return int(-(p.Base + uint32(off)) & (p.Align - 1))
}

package oncrpc

// Padding says where a message that came as RDMA_MSGP has padding: before the
// data of each opaque of Thresh bytes or more, as much as brings the data to a
// multiple of Align, counted from the start of the Send (RFC 5666 §3.9). The
// zero value is no padding.
type Padding struct {
	Align  uint32 // bytes, a power of two; 0 is no padding
	Thresh uint32 // bytes
	// Base is where in the Send the stream begins, in bytes.
	Base uint32
}

// Before is the number of padding bytes at off of the stream, before the data
// of an opaque of n bytes. It is a multiple of 4 when off and Base are.
func (p *Padding) Before(off, n int) int {
	if p.Align == 0 || uint32(n) < p.Thresh {
		return 0
	}
	return int(-(p.Base + uint32(off)) & (p.Align - 1))
}

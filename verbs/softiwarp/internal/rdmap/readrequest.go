package rdmap

import "encoding/binary"

// ReadRequestSize is the length of a Read Request's payload in bytes.
const ReadRequestSize = 28

// Read is the payload of an RDMA Read Request message (RFC 5040 §4.4).
type Read struct {
	SinkSTag uint32
	SinkTO   uint64
	Size     uint32 // bytes
	SrcSTag  uint32
	SrcTO    uint64
}

// Append appends the encoded request to b.
func (r *Read) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.SrcSTag)
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}

// Decode decodes the request at the start of b and returns its length.
func (r *Read) Decode(b []byte) (int, error) {
	if len(b) < ReadRequestSize {
		return 0, ErrShort
	}
	r.SinkSTag = binary.BigEndian.Uint32(b)
	r.SinkTO = binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SrcSTag = binary.BigEndian.Uint32(b[16:])
	r.SrcTO = binary.BigEndian.Uint64(b[20:])
	return ReadRequestSize, nil
}

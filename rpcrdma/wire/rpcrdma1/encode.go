package rpcrdma1

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Size returns the number of bytes that Append appends.
func (h *Header) Size() int {
	switch h.Proc {
	case Done:
		return PrefixSize
	case Error:
		if h.Err == ErrVers {
			return PrefixSize + 3*wordSize
		}
		return PrefixSize + wordSize
	case MsgP:
		return PrefixSize + 2*wordSize + h.ListsSize()
	default:
		return PrefixSize + h.ListsSize()
	}
}

// ListsSize returns the encoded size of the read list, the write list and the
// reply chunk, which are the same in version 2.
func (h *Header) ListsSize() int {
	n := len(h.Reads)*(wordSize+readSegmentSize) + wordSize
	for _, c := range h.Writes {
		n += wordSize + c.size()
	}
	n += wordSize // the end of the write list
	n += wordSize // whether there is a reply chunk
	if h.HasReply {
		n += h.Reply.size()
	}
	return n
}

// size returns the encoded size of the chunk with its segment count.
func (c WriteChunk) size() int {
	return wordSize + len(c)*segmentSize
}

// Append appends the encoded header, with the Version in h. Fields that the header type
// does not have are omitted. It allocates only when dst is too small.
func (h *Header) Append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, h.XID)
	dst = xdr.AppendUint32(dst, h.Version)
	dst = xdr.AppendUint32(dst, h.Credits)
	dst = xdr.AppendUint32(dst, uint32(h.Proc))
	switch h.Proc {
	case Done:
		return dst
	case Error:
		return h.appendError(dst)
	case MsgP:
		dst = xdr.AppendUint32(dst, h.Align)
		dst = xdr.AppendUint32(dst, h.Thresh)
	}
	return h.AppendLists(dst)
}

func (h *Header) appendError(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, uint32(h.Err))
	if h.Err == ErrVers {
		dst = xdr.AppendUint32(dst, h.Low)
		dst = xdr.AppendUint32(dst, h.High)
	}
	return dst
}

// AppendLists appends the lists as XDR optional-data: 1 precedes each entry, and 0 ends the
// list. They are the same in version 2.
func (h *Header) AppendLists(dst []byte) []byte {
	for i := range h.Reads {
		r := &h.Reads[i]
		dst = xdr.AppendUint32(dst, 1)
		dst = xdr.AppendUint32(dst, r.Position)
		dst = r.append(dst)
	}
	dst = xdr.AppendUint32(dst, 0)
	for _, c := range h.Writes {
		dst = xdr.AppendUint32(dst, 1)
		dst = c.append(dst)
	}
	dst = xdr.AppendUint32(dst, 0)
	dst = xdr.AppendBool(dst, h.HasReply)
	if h.HasReply {
		dst = h.Reply.append(dst)
	}
	return dst
}

func (c WriteChunk) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, uint32(len(c)))
	for i := range c {
		dst = c[i].append(dst)
	}
	return dst
}

func (s *Segment) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, s.Handle)
	dst = xdr.AppendUint32(dst, s.Length)
	return xdr.AppendUint64(dst, s.Offset)
}

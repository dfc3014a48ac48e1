package rpcrdma1

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Size returns the number of bytes that Append appends.
func (h *Header) Size() int {
	switch h.Proc {
	case Done:
		return PrefixSize
	case Error:
		return PrefixSize + h.ErrorSize()
	case MsgP:
		return PrefixSize + 2*wordSize + h.ListsSize()
	default:
		return PrefixSize + h.ListsSize()
	}
}

// ErrorSize returns the number of bytes that AppendError appends.
func (h *Header) ErrorSize() int {
	if h.Err == ErrVers {
		return 3 * wordSize
	}
	return wordSize
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
	dst = h.AppendPrefix(dst)
	switch h.Proc {
	case Done:
		return dst
	case Error:
		return h.AppendError(dst)
	case MsgP:
		dst = xdr.AppendUint32(dst, h.Align)
		dst = xdr.AppendUint32(dst, h.Thresh)
	}
	return h.AppendLists(dst)
}

// AppendPrefix appends the prefix, which is the same in version 2.
func (h *Header) AppendPrefix(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, h.XID)
	dst = xdr.AppendUint32(dst, h.Version)
	dst = xdr.AppendUint32(dst, h.Credits)
	return xdr.AppendUint32(dst, uint32(h.Proc))
}

// AppendError appends what follows the prefix of an Error header, in version 2 as well.
func (h *Header) AppendError(dst []byte) []byte {
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
		dst = AppendSegments(dst, c)
	}
	dst = xdr.AppendUint32(dst, 0)
	dst = xdr.AppendBool(dst, h.HasReply)
	if h.HasReply {
		dst = AppendSegments(dst, h.Reply)
	}
	return dst
}

// AppendSegments appends an array of segments.
func AppendSegments(dst []byte, list []Segment) []byte {
	dst = xdr.AppendUint32(dst, uint32(len(list)))
	for i := range list {
		dst = list[i].append(dst)
	}
	return dst
}

func (s *Segment) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, s.Handle)
	dst = xdr.AppendUint32(dst, s.Length)
	return xdr.AppendUint64(dst, s.Offset)
}

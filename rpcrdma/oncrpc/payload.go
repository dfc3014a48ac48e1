package oncrpc

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// errItemLength: an item that stands apart is not as long as its length word
// in the stream says.
var errItemLength = errors.New("oncrpc: item differs from its length word")

// Opaque decodes variable-length opaque data of at most limit bytes at d,
// which decodes p.Stream, wherever the bytes stand: in the stream, or apart
// as an item. The result aliases them, but is a copy when they are in several
// parts; Parts does without. An item may come with its roundup
// (RFC 8166 §3.4.4), otherwise its length must be the stream's length word.
// Padding before the bytes is skipped.
func (p *Payload) Opaque(d *xdr.Decoder, limit int) []byte {
	data, item, n := p.opaque(d, limit)
	if item == nil || len(item.More) == 0 {
		return data
	}
	data = append(make([]byte, 0, item.Len()), item.Data...)
	for _, part := range item.More {
		data = append(data, part...)
	}
	return data[:n:n]
}

// Parts is Opaque that appends the bytes to dst as the parts that they are in,
// none of them empty, and never copies. An error leaves dst as it was.
func (p *Payload) Parts(dst [][]byte, d *xdr.Decoder, limit int) [][]byte {
	data, item, n := p.opaque(d, limit)
	dst, n = appendPart(dst, data, n)
	if item != nil {
		for _, part := range item.More {
			dst, n = appendPart(dst, part, n)
		}
	}
	return dst
}

// appendPart appends the first n bytes of part, if there are any, and says how
// many of n are missing.
func appendPart(dst [][]byte, part []byte, n int) ([][]byte, int) {
	if k := min(n, len(part)); k > 0 {
		return append(dst, part[:k:k]), n - k
	}
	return dst, n
}

// opaque finds opaque data of n bytes: data, and when it is an item that one,
// of which data is the first part. With an error there is neither, and n is 0.
func (p *Payload) opaque(d *xdr.Decoder, limit int) (data []byte, item *Item, n int) {
	n = d.Length(limit)
	if d.Err() != nil {
		return nil, nil, 0
	}
	item = p.itemAt(d.Offset())
	if item == nil {
		d.Fixed(p.Padding.Before(d.Offset(), n))
		if data = d.Fixed(n); d.Err() != nil {
			return nil, nil, 0
		}
		return data, nil, n
	}
	if k := item.Len(); k < n || k > xdr.Padded(n) {
		d.Fail(errItemLength)
		return nil, nil, 0
	}
	item.claimed = true
	k := min(n, len(item.Data))
	return item.Data[:k:k], item, n
}

// Claimed says whether every item is the bytes of an opaque that Opaque or Parts
// has decoded. Arguments with one that is not are no arguments of the procedure:
// GARBAGE_ARGS (RFC 5666 §3.4: byte counts in the stream and chunks agree). A
// handler that acts on its arguments asks once it has decoded them; Serve asks
// for all others.
func (p *Payload) Claimed() bool {
	for i := range p.Items {
		if !p.Items[i].claimed {
			return false
		}
	}
	return true
}

// Claim says that the handler answers for all items in another way than by Opaque
// and Parts.
func (p *Payload) Claim() {
	for i := range p.Items {
		p.Items[i].claimed = true
	}
}

func (p *Payload) itemAt(pos int) *Item {
	for i := range p.Items {
		if p.Items[i].Pos == pos {
			return &p.Items[i]
		}
	}
	return nil
}

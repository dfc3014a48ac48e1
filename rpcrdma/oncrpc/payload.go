package oncrpc

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// errItemLength means that the length of an item differs from its length word in the
// stream.
var errItemLength = errors.New("oncrpc: item differs from its length word")

// Opaque decodes variable-length opaque data of at most limit bytes at d, which decodes
// p.Stream. The data is in the stream or in an item. The result aliases it, or is a copy if
// the item has several parts; Parts avoids the copy. An item may include its roundup
// padding (RFC 8166 §3.4.4); otherwise its length must equal the stream's length word.
// Padding before the data is skipped.
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

// Parts is Opaque, but appends the data to dst as non-empty parts and never copies. After
// an error dst is unchanged.
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

// appendPart appends at most n bytes of part, unless it is empty, and returns how many of n
// are missing.
func appendPart(dst [][]byte, part []byte, n int) ([][]byte, int) {
	if k := min(n, len(part)); k > 0 {
		return append(dst, part[:k:k]), n - k
	}
	return dst, n
}

// opaque finds opaque data of n bytes. If it is in an item, item is set and data is its
// first part. After an error both are nil and n is 0.
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

// Claimed reports whether Opaque or Parts has decoded every item. If not, the arguments are
// invalid: GARBAGE_ARGS (RFC 5666 §3.4: byte counts in the stream and chunks agree). A
// handler that acts on its arguments must check this after decoding them. Serve checks it
// for all others.
func (p *Payload) Claimed() bool {
	for i := range p.Items {
		if !p.Items[i].claimed {
			return false
		}
	}
	return true
}

// Claim marks all items as decoded, for a handler that processes them without Opaque and
// Parts.
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

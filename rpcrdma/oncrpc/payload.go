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
// as an item. The result aliases them. An item may come with its roundup
// (RFC 8166 §3.4.4), otherwise its length must be the stream's length word.
// Padding before the bytes is skipped.
func (p *Payload) Opaque(d *xdr.Decoder, limit int) []byte {
	n := d.Length(limit)
	if d.Err() != nil {
		return nil
	}
	item := p.itemAt(d.Offset())
	if item == nil {
		d.Fixed(p.Padding.Before(d.Offset(), n))
		return d.Fixed(n)
	}
	if len(item.Data) < n || len(item.Data) > xdr.Padded(n) {
		d.Fail(errItemLength)
		return nil
	}
	return item.Data[:n:n]
}

func (p *Payload) itemAt(pos int) *Item {
	for i := range p.Items {
		if p.Items[i].Pos == pos {
			return &p.Items[i]
		}
	}
	return nil
}

package ulb

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// tagged processes an event of the walk.
func (p *Plan) tagged(ev walk.Event) error {
	if p.reply {
		p.inResults(ev)
		return nil
	}
	switch ev.Tag {
	case Grow, Count:
		p.grow(1, ev.Value)
	case Wanted:
		p.told = p.told || ev.Value&walk.Watched != 0
		p.grow(1, ev.Value&^walk.Watched)
	case Limited:
		p.told = true
	case Grow4:
		p.grow(4, ev.Value)
	case Grow16:
		p.grow(16, ev.Value)
	case Expect, ExpectPath:
		return p.expect(ev.Value, ev.Tag == ExpectPath)
	case Session:
		p.asked, p.told = ev.Value, true
	case Operation:
		p.operation(p.w.Offset() - xdr.Unit)
	}
	return nil
}

// operation records that another operation begins at off, or that there is none. The
// results since the last one belong to that operation.
func (p *Plan) operation(off int) {
	if p.reply {
		return
	}
	off += p.absent
	for i := p.before; p.began >= 0 && i < len(p.Results); i++ {
		p.Results[i].Asked = xdr.Span{Begin: p.began, End: off}
	}
	p.began, p.before = off, len(p.Results)
}

func (p *Plan) inResults(ev walk.Event) {
	switch ev.Tag {
	case Expect:
		p.index++
	case Session:
		if ev.Value&p.asked&connBackChan != 0 {
			p.Opened = OpenedSession
		}
	case Bind:
		if ev.Value&dirBack != 0 {
			p.Opened = OpenedBind
		}
	}
}

// broken records the operation at which the walk failed: an unknown one, whose number was
// read, or the one that the walk is in.
func (p *Plan) broken() {
	off := p.w.Offset()
	if errors.Is(p.err, ErrUnknown) {
		off -= xdr.Unit
	}
	p.operation(off)
}

// grow adds n times size to the estimate.
func (p *Plan) grow(n, size uint32) {
	if p.MaxReply == Unknown {
		return
	}
	p.MaxReply = int(min(int64(p.MaxReply)+int64(n)*int64(size), maxEstimate))
}

// expect plans a DDP-eligible result. If the body cannot be reduced, the result counts as
// part of the reply.
func (p *Plan) expect(size uint32, path bool) error {
	size = min(size, maxEstimate)
	if p.guarded != bare {
		p.grow(1, uint32(xdr.Padded(int(size))))
		return nil
	}
	if len(p.Results) == maxItems {
		return fmt.Errorf("%w: more than %d results", ErrMalformed, maxItems)
	}
	p.Results = append(p.Results, Result{Max: int(size), Path: path, Pos: -1})
	return nil
}

// item records the item of n bytes at which the walk is.
func (p *Plan) item(n int) error {
	if left := p.w.Left(); !p.whole && left >= 0 && xdr.Padded(n) > left {
		return wrap(walk.ErrShort)
	}
	if !p.reply {
		if len(p.Items) == maxItems {
			return fmt.Errorf("%w: more than %d items", ErrMalformed, maxItems)
		}
		p.current = len(p.Items)
		p.Items = append(p.Items, Item{Pos: p.w.Offset(), Len: n})
		return nil
	}
	p.current = p.index - 1
	if p.current < 0 || p.current >= len(p.Results) {
		return ErrUnplanned
	}
	r := &p.Results[p.current]
	if n > r.Max || r.Pos >= 0 {
		return ErrUnplanned
	}
	r.Pos, r.Len = p.w.Offset(), n
	return nil
}

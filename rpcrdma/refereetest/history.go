package refereetest

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// history is what an end has seen last.
type history struct {
	lines [24]line
	n     int
}

// line is an event with the beginning of its bytes.
type line struct {
	event referee.Event
	data  [120]byte
}

func (h *history) add(e *referee.Event) {
	l := &h.lines[h.n%len(h.lines)]
	h.n++
	l.event = *e
	l.event.Data = l.data[:copy(l.data[:], e.Data)]
}

func (h *history) String() string {
	var b strings.Builder
	for i := max(0, h.n-len(h.lines)); i < h.n; i++ {
		e := &h.lines[i%len(h.lines)].event
		fmt.Fprintf(&b, "\n  %d %s: %v, %d bytes", e.Frame, e.From, e.Kind, e.Length)
		switch e.Kind {
		case referee.Write, referee.Read:
			fmt.Fprintf(&b, " at %#x:%#x", e.STag, e.Offset)
		case referee.SendInvalidate:
			fmt.Fprintf(&b, " invalidating %#x", e.STag)
		case referee.Terminate:
			fmt.Fprintf(&b, ", layer %d, type %d, code %d", e.Layer, e.Type, e.Code)
		}
		if e.Kind == referee.Send || e.Kind == referee.SendInvalidate {
			fmt.Fprintf(&b, ": %x", e.Data)
		}
	}
	return b.String()
}

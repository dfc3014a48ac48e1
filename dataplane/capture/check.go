package capture

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/pcap"
	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// Options say how Check reads a capture. The zero Options are usable.
type Options struct {
	// Vantage is where the capture was taken. FromAnywhere is always correct.
	// With another value the referee can judge more.
	Vantage referee.Vantage
	// Expected, if not nil, reports whether a violation is known and accepted.
	// The Report does not count accepted violations.
	Expected func(*Connection, *Violation) bool
	// Progress, if not nil, is called after every packet with the numbers of
	// packets and bytes read so far.
	Progress func(packets, bytes uint64)
}

// Check reads a capture to its end and judges its connections. If the input is
// no capture, Check returns no Report and an error that is ErrFormat. With any
// other error, the Report holds the results up to that point. The error is
// io.ErrUnexpectedEOF if the file ends within a packet.
func Check(ctx context.Context, in io.Reader, opts Options) (*Report, error) {
	return check(ctx, in, opts, func(cfg referee.Config) judge { return referee.New(cfg) })
}

// check is Check with a given constructor of judges.
func check(ctx context.Context, in io.Reader, opts Options, newJudge func(referee.Config) judge) (*Report, error) {
	src, err := newSource(in)
	if err != nil {
		return nil, err
	}
	r := &reader{
		opts: opts, src: src, judge: newJudge, report: newReport(),
		flows: make(map[flowKey]*list.Element), recent: list.New(),
	}
	err = r.run(ctx)
	r.finish()
	r.report.Packets = src.packets
	return r.report, err
}

// flowKey identifies a TCP connection, whichever end sends.
type flowKey struct{ a, b netip.AddrPort }

func keyOf(s *segment) flowKey {
	if s.from.Compare(s.to) > 0 {
		return flowKey{s.to, s.from}
	}
	return flowKey{s.from, s.to}
}

// reader reads one capture.
type reader struct {
	opts      Options
	src       *source
	judge     func(referee.Config) judge
	report    *Report
	note      *pcap.Note // on the packet being read, if rdmad wrote the file
	flows     map[flowKey]*list.Element
	recent    *list.List // of *tracked; the longest silent one is in front
	following int        // connections that are followed
	probes    int        // flows that are searched for Sends
	waiting   int        // memory of the waiting segments of all flows, in bytes
}

// tracked is a flow and the link on it.
type tracked struct {
	key  flowKey
	flow *flow
	link *link
}

// run reads packets until the capture ends.
func (r *reader) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := r.src.read()
		switch {
		case errors.Is(err, io.EOF):
			r.countDropped()
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			r.report.Truncated = true
			return fmt.Errorf("the capture ends within packet %d: %w", r.src.packets+1, io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("packet %d: %w", r.src.packets+1, err)
		}
		r.countDropped()
		r.note = nil
		if n, ok := pcap.ParseNote(p.notes); ok {
			r.note = &n
		}
		if s, ok := decodeSegment(&p); ok {
			r.segment(&s)
		}
		if r.opts.Progress != nil {
			r.opts.Progress(r.src.packets, r.src.counted.n)
		}
	}
}

// vantage returns the vantage of a connection that begins with this packet.
func (r *reader) vantage() referee.Vantage {
	switch {
	case r.note == nil:
		return r.opts.Vantage
	case r.note.Began:
		return referee.FromClient
	}
	return referee.FromServer
}

// countDropped reports a gap to all referees if the file says that more packets
// were dropped.
func (r *reader) countDropped() {
	n := r.src.dropped()
	if n <= r.report.Dropped {
		return
	}
	r.report.Dropped = n
	for e := r.recent.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*tracked).link.conn; c != nil {
			c.gap()
		}
	}
}

// segment passes a segment to its flow.
func (r *reader) segment(s *segment) {
	key := keyOf(s)
	e := r.flows[key]
	if e != nil && s.syn && !s.acks && e.Value.(*tracked).replacedBy(s) {
		r.drop(e)
		e = nil
	}
	if e == nil {
		e = r.open(key, s)
	} else {
		r.recent.MoveToBack(e)
	}
	t := e.Value.(*tracked)
	if t.flow.deaf {
		return
	}
	t.flow.add(s)
	if r.waiting > maxWaitingAll {
		r.relieve()
	}
	if c := t.link.conn; c != nil {
		c.out.MissingBytes = uint64(t.flow.holes)
		if (t.flow.reset || t.flow.half[0].ended && t.flow.half[1].ended) && len(t.flow.waiting) == 0 {
			c.end()
		}
	}
}

// relieve flushes the longest silent flows until half of maxWaitingAll is free.
func (r *reader) relieve() {
	for e := r.recent.Front(); e != nil && r.waiting > maxWaitingAll/2; e = e.Next() {
		e.Value.(*tracked).flow.flush()
	}
}

// replacedBy reports whether a SYN begins a new connection between the same
// ports.
func (t *tracked) replacedBy(s *segment) bool {
	h := &t.flow.half[t.flow.side(s)]
	return h.ended || t.flow.deaf || h.known && s.seq+1 != h.first
}

// open begins a flow. If there are too many, it drops the longest silent one.
func (r *reader) open(key flowKey, s *segment) *list.Element {
	if len(r.flows) == maxFlows {
		r.drop(r.recent.Front())
	}
	t := &tracked{key: key, flow: &flow{ends: [2]netip.AddrPort{key.a, key.b}, all: &r.waiting}}
	t.link = newLink(r, t.flow, s.syn)
	e := r.recent.PushBack(t)
	r.flows[key] = e
	return e
}

// drop ends a flow.
func (r *reader) drop(e *list.Element) {
	t := e.Value.(*tracked)
	t.flow.flush()
	t.link.end()
	r.recent.Remove(e)
	delete(r.flows, t.key)
}

// finish ends all flows.
func (r *reader) finish() {
	for e := r.recent.Front(); e != nil; e = r.recent.Front() {
		r.drop(e)
	}
}

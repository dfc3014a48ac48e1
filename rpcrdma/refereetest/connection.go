package refereetest

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// identifier is one end of a connection.
type identifier struct {
	rdmacm.ID
	p   *provider
	end *end
}

func (p *provider) identifier(id rdmacm.ID, side referee.Side) rdmacm.ID {
	return &identifier{id, p, newEnd(side, p.report)}
}

func (i *identifier) Device() verbs.Device { return i.p.device(i.ID.Device()) }

func (i *identifier) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	queues := []*queue{attr.SendCQ.(watched).watched(), attr.RecvCQ.(watched).watched()}
	attr.SendCQ, attr.RecvCQ = queues[0].CQ, queues[1].CQ
	qp, err := i.ID.CreateQP(pd, attr)
	if err != nil {
		return nil, err
	}
	p := &pair{QP: qp, end: i.end, sigAll: attr.SigAll}
	for _, q := range queues {
		q.use(p)
	}
	return p, nil
}

func (i *identifier) Connect(ctx context.Context, p rdmacm.ConnParam) error {
	err := i.ID.Connect(ctx, p)
	if err == nil {
		i.end.connected(referee.Private{Client: p.PrivateData, Server: i.Peer().PrivateData})
	}
	return err
}

func (i *identifier) Accept(ctx context.Context, p rdmacm.ConnParam) error {
	// The client may send before Accept returns.
	i.end.connected(referee.Private{Client: i.Peer().PrivateData, Server: p.PrivateData})
	return i.ID.Accept(ctx, p)
}

// pair is a queue pair whose work its end sees.
type pair struct {
	verbs.QP
	end    *end
	sigAll bool

	// Requests are seen in the order in which they are posted.
	sending, receiving sync.Mutex

	mu       sync.Mutex
	receives [][]verbs.SGE // posted, oldest first
	sends    []request     // likewise
	ended    bool
	gathered []byte
}

// request is what a posted send-queue request comes to when it completes.
type request struct {
	signaled, read bool
	sink           []verbs.SGE
}

func (p *pair) PostRecv(wrs []verbs.RecvWR) (int, error) {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	p.mu.Lock()
	for i := range wrs {
		p.receives = append(p.receives, append([]verbs.SGE(nil), wrs[i].SGL...))
	}
	p.mu.Unlock()
	n, err := p.QP.PostRecv(wrs)
	if refused := len(wrs) - n; refused > 0 {
		p.mu.Lock()
		p.receives = p.receives[:len(p.receives)-refused]
		p.mu.Unlock()
	}
	return n, err
}

func (p *pair) PostSend(wrs []verbs.SendWR) (int, error) {
	p.sending.Lock()
	defer p.sending.Unlock()
	p.mu.Lock()
	if p.State() == verbs.QPErr {
		p.ended = true // what is posted is flushed
	}
	judged := !p.ended
	for i := range wrs {
		if judged {
			p.posted(&wrs[i])
		}
	}
	p.mu.Unlock()
	n, err := p.QP.PostSend(wrs)
	if refused := len(wrs) - n; judged && refused > 0 {
		p.mu.Lock()
		p.sends = p.sends[:len(p.sends)-refused]
		p.mu.Unlock()
	}
	return n, err
}

func (p *pair) posted(wr *verbs.SendWR) {
	r := request{signaled: p.sigAll || wr.Flags&verbs.SendSignaled != 0}
	side := p.end.side
	switch wr.Op {
	case verbs.OpSend, verbs.OpSendInvalidate:
		data := p.gather(wr.SGL, length(wr.SGL))
		e := referee.Event{Kind: referee.Send, From: side, Length: len(data), Data: data}
		if wr.Op == verbs.OpSendInvalidate {
			e.Kind, e.STag = referee.SendInvalidate, wr.InvalidateRKey
		}
		p.end.observe(&e)
	case verbs.OpRDMAWrite:
		data := p.gather(wr.SGL, length(wr.SGL))
		p.end.observe(&referee.Event{
			Kind: referee.Write, From: side, STag: wr.RKey, Offset: wr.RemoteAddr, Length: len(data), Data: data,
		})
	case verbs.OpRDMARead:
		r.read, r.sink = true, append([]verbs.SGE(nil), wr.SGL...)
		p.end.observe(&referee.Event{
			Kind: referee.Read, From: side, STag: wr.RKey, Offset: wr.RemoteAddr, Length: length(wr.SGL),
		})
	}
	p.sends = append(p.sends, r)
}

// completed shows what came in and what was read.
func (p *pair) completed(wcs []verbs.WC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range wcs {
		wc := &wcs[i]
		switch {
		case p.ended:
			return
		case wc.Status != verbs.WCSuccess:
			p.ended = true
		case wc.Op == verbs.WCRecv:
			p.received(wc)
		default:
			p.sent()
		}
	}
}

func (p *pair) received(wc *verbs.WC) {
	sgl := p.receives[0]
	p.receives = p.receives[1:]
	data := p.gather(sgl, wc.ByteLen)
	e := referee.Event{Kind: referee.Send, From: p.end.side.Peer(), Length: len(data), Data: data}
	if wc.WithInvalidate {
		e.Kind, e.STag = referee.SendInvalidate, wc.Invalidated
	}
	p.end.observe(&e)
}

// sent takes a signaled request off, and those before it that have completed
// with it.
func (p *pair) sent() {
	for len(p.sends) > 0 {
		r := p.sends[0]
		p.sends = p.sends[1:]
		if r.read {
			data := p.gather(r.sink, length(r.sink))
			p.end.observe(&referee.Event{Kind: referee.ReadDone, From: p.end.side, Length: len(data), Data: data})
		}
		if r.signaled {
			return
		}
	}
}

func (p *pair) Close() error {
	var t *verbs.TerminateError
	err := p.Err()
	if errors.As(err, &t) {
		from := p.end.side
		if t.Remote {
			from = from.Peer()
		}
		p.end.observe(&referee.Event{Kind: referee.Terminate, From: from, Layer: t.Layer, Type: t.Type, Code: t.Code})
	}
	p.end.observe(&referee.Event{Kind: referee.Close, From: p.end.side})
	return p.QP.Close()
}

func length(sgl []verbs.SGE) (n int) {
	for _, s := range sgl {
		n += s.Length
	}
	return n
}

// gather returns the first n bytes that sgl names, valid until the next call.
func (p *pair) gather(sgl []verbs.SGE, n int) []byte {
	if len(sgl) == 1 {
		return sgl[0].MR.Bytes()[sgl[0].Offset:][:n]
	}
	p.gathered = p.gathered[:0]
	for _, s := range sgl {
		p.gathered = append(p.gathered, s.MR.Bytes()[s.Offset:][:min(s.Length, n-len(p.gathered))]...)
	}
	return p.gathered
}

// end judges one end of a connection.
type end struct {
	side   referee.Side
	report Report

	mu     sync.Mutex
	judge  *referee.Referee
	number uint64
	last   history
}

func newEnd(side referee.Side, report Report) *end {
	e := &end{side: side, report: report}
	vantage := referee.FromClient
	if side == referee.Server {
		vantage = referee.FromServer
	}
	e.judge = referee.New(referee.Config{Vantage: vantage, Report: func(v referee.Violation) {
		if v.By == side {
			report(v, e.last.String())
		}
	}})
	return e
}

func (e *end) connected(p referee.Private) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.judge.Connect(referee.Private{Client: bytes.Clone(p.Client), Server: bytes.Clone(p.Server)})
}

func (e *end) observe(event *referee.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.number++
	event.Frame = e.number
	e.last.add(event)
	e.judge.Observe(event)
}

package rpcrdma_test

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
)

// anyPeer is a peer of version 2 on bare verbs, client or server, that says what
// a script holds: any characteristics, credits and answers, at any time.
type anyPeer struct {
	*raw
	client bool
	script *anyScript

	turn    int             // of the script, so far
	said    int             // messages
	left    uint32          // transmissions to come of the call that is arriving
	group   rpcrdma2.XmtReq // that call
	calling bool            // a call of its own is not answered
	xid     uint32          // of its last message
	ended   chan struct{}
}

// anyScript is what such a peer says.
type anyScript struct {
	greeting greeting
	start    rpcrdma2.Set
	nochange rpcrdma2.Subset
	turns    []anyTurn // one for each message that wants an answer, then from the first on again
}

// greeting is what becomes of INIT.
type greeting int

const (
	greetsWell    greeting = iota // answers it; a client sends it first
	greetsItself                  // with an XID of its own
	greetsLater                   // with REQUEST and UPDATE after an error, or after calls
	greetsNever                   // says nothing; a client begins with a call
	greetsRefused                 // says ERROR for good
	greetings
)

// anyTurn is what it does about a call.
type anyTurn struct {
	before, after rpcrdma2.Set // UPDATEs, if not empty
	does          doing
	credits       uint32 // of all that it says
	calls         bool   // makes a call of its own first
}

type doing int

const (
	answers doing = iota
	answersTwice
	drops
	refuses // with XMTERR
	errs    // with ERROR
	respondsOddly
	lies
	doings
)

func (s *anyScript) String() string {
	text := fmt.Sprintf("greeting %d with %x (%x stay)", s.greeting, s.start, s.nochange)
	for _, t := range s.turns {
		text += fmt.Sprintf("; does %d, credits %d, calls %v, UPDATE %x, then %x", t.does, t.credits, t.calls, t.before, t.after)
	}
	return text
}

// run talks until the connection ends.
func (p *anyPeer) run() {
	defer close(p.ended)
	if p.client {
		p.begin()
	}
	for {
		msg, wc := p.receiveWC()
		if msg == nil {
			return
		}
		p.handle(msg)
		at := int(wc.ID)
		_, _ = p.qp.PostRecv([]verbs.RecvWR{{ID: wc.ID, SGL: []verbs.SGE{{MR: p.recv, Offset: at * rawSize, Length: rawSize}}}}) // the connection may have ended
	}
}

// say sends a message, unless the connection has ended.
func (p *anyPeer) say(msg []byte) {
	p.said++
	n := copy(p.send.Bytes(), msg)
	if _, err := p.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Flags: verbs.SendSignaled, ID: 1 << 40, SGL: []verbs.SGE{{MR: p.send, Length: n}}}}); err == nil {
		p.wait(func(wc verbs.WC) bool { return wc.ID == 1<<40 })
	}
}

// ours is the direction of its operations without a call.
func (p *anyPeer) ours() rpcrdma2.Direction {
	if p.client {
		return rpcrdma2.Call
	}
	return rpcrdma2.Reply
}

func (p *anyPeer) now() *anyTurn { return &p.script.turns[p.turn%len(p.script.turns)] }

func (p *anyPeer) next() uint32 { p.xid++; return p.xid }

// operation is a message of an operation with the credits of the present turn.
func (p *anyPeer) operation(xid uint32, d rpcrdma2.Direction, body rpcrdma2.Body, payload []byte) []byte {
	msg := optional(xid, d, body, payload)
	binary.BigEndian.PutUint32(msg[8:], p.now().credits)
	return msg
}

func (p *anyPeer) tell(set rpcrdma2.Set) {
	if len(set) > 0 {
		p.say(p.operation(p.next(), p.ours(), &rpcrdma2.Update{Now: set}, nil))
	}
}

func (p *anyPeer) init() *rpcrdma2.Init {
	return &rpcrdma2.Init{Start: p.script.start, NoChange: p.script.nochange}
}

// begin is how a client begins.
func (p *anyPeer) begin() {
	switch p.script.greeting {
	case greetsWell, greetsItself:
		p.say(p.operation(p.next(), rpcrdma2.Call, p.init(), nil))
	case greetsLater:
		p.call()
		p.say(p.operation(p.next(), rpcrdma2.Call, &rpcrdma2.Request{}, nil))
		p.tell(p.script.start)
	default:
		p.call()
	}
}

// call makes a call of its own, one at a time.
func (p *anyPeer) call() {
	if p.calling {
		return
	}
	p.calling = true
	xid := p.next()
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: p.now().credits}}
	p.say(append(h.Append(nil), rpcCall(xid, procNull, nil)...))
}

// handle takes a message of the other end.
func (p *anyPeer) handle(msg []byte) {
	var h rpcrdma2.Header
	if _, err := h.Decode(msg); err != nil {
		return
	}
	switch {
	case h.Proc == rpcrdma2.Error:
		p.calling = false
		if p.client && h.XID == 1 { // its INIT: it goes on without
			p.call()
		}
	case h.Proc != rpcrdma2.Optional && h.Direction == rpcrdma2.Reply:
		p.calling = false
	case h.Proc != rpcrdma2.Optional:
		p.answer(&h, nil)
	case h.Option == rpcrdma2.OptInit:
		p.greet(&h)
	case h.Option == rpcrdma2.OptRequest:
		p.respond(&h)
	case h.Option == rpcrdma2.OptXmtReq || h.Option == rpcrdma2.OptXmtCont:
		p.transmitted(&h)
	}
}

// greet answers the INIT of a client.
func (p *anyPeer) greet(h *rpcrdma2.Header) {
	if p.client {
		return
	}
	switch p.script.greeting {
	case greetsWell:
		p.say(p.operation(h.XID, rpcrdma2.Reply, p.init(), nil))
	case greetsItself:
		p.say(p.operation(p.next(), rpcrdma2.Reply, p.init(), nil))
	case greetsLater, greetsRefused:
		p.refuse(h.XID)
	}
	if p.script.greeting == greetsLater {
		p.tell(p.script.start)
	}
}

func (p *anyPeer) refuse(xid uint32) {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: p.now().credits, Proc: rpcrdma2.Error, Err: rpcrdma2.ErrInvalOption}}
	p.say(h.Append(nil))
}

// respond answers a REQUEST: done, rejected, neither, both with other values.
func (p *anyPeer) respond(h *rpcrdma2.Header) {
	t := p.now()
	p.turn++
	r := &rpcrdma2.Respond{Other: t.before}
	switch all := (rpcrdma2.Subset{1}); t.does {
	case answers:
		r.Done = all
	case answersTwice:
		r.Done, r.Rejected = all, all
	case refuses:
		r.Rejected = all
	case errs:
		p.refuse(h.XID)
		return
	case drops:
		return
	}
	p.say(p.operation(h.XID, p.ours(), r, nil))
}

// transmitted takes a part of a call, and answers when it is the last.
func (p *anyPeer) transmitted(h *rpcrdma2.Header) {
	var q rpcrdma2.XmtReq
	if h.Option == rpcrdma2.OptXmtReq {
		p.ok(q.Decode(h.Info))
		p.left = q.Count
		p.group = q
	}
	if p.left--; p.left == 0 {
		p.answer(h, &p.group)
	}
}

// answer does as the script says about a call, which came in transmissions if q
// is not nil.
func (p *anyPeer) answer(h *rpcrdma2.Header, q *rpcrdma2.XmtReq) {
	t := p.now()
	p.tell(t.before)
	if t.calls {
		p.call()
	}
	switch t.does {
	case answers, answersTwice:
		for range 1 + int(t.does) {
			p.say(p.reply(h, q))
		}
	case refuses:
		bad := rpcrdma2.Transmission{XID: h.XID, Direction: rpcrdma2.Call}
		p.say(p.operation(h.XID, rpcrdma2.Reply, &rpcrdma2.XmtError{Bad: bad, Code: rpcrdma2.BadContinuation}, nil))
	case errs:
		p.refuse(h.XID)
	case respondsOddly:
		p.say(p.operation(h.XID, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: t.credits, PayloadLength: t.credits}, make([]byte, 40)))
	case lies:
		msg := p.reply(h, q)
		p.say(msg[:len(msg)-8])
	}
	p.tell(t.after)
	p.turn++
}

// reply is the right answer to a call, with no results.
func (p *anyPeer) reply(h *rpcrdma2.Header, q *rpcrdma2.XmtReq) []byte {
	body := oncrpc.AppendAcceptedReply(nil, h.XID)
	if q != nil {
		r := &rpcrdma2.XmtResp{Count: 1, PayloadLength: uint32(len(body))}
		for _, set := range q.Results {
			r.Items = append(r.Items, slices.Repeat([]rpcrdma2.Item{{Place: rpcrdma2.NoItem}}, len(set.Items))...)
		}
		return p.operation(h.XID, rpcrdma2.Reply, r, body)
	}
	r := rpcrdma2.Header{Header: rpcrdma1.Header{XID: h.XID, Version: 2, Credits: p.now().credits, HasReply: h.HasReply}, Direction: rpcrdma2.Reply}
	for _, w := range h.Writes {
		r.Writes = append(r.Writes, bytesWritten(w, 0))
	}
	r.Reply = bytesWritten(h.Reply, 0)
	return append(r.Append(nil), body...)
}

package transport

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// headRoom is the room for the largest header that a requester makes, in bytes
// (conn.MinSegment).
const headRoom = settings.InlineMin

// pending is the transport's state of a call.
type pending struct {
	r    *Requester
	out  conn.Outgoing
	done chan struct{} // a token when the call is finished
	toDo Done          // of a call made with Go, whose caller does not wait

	leads bool // its caller polls the connection
	apart bool // a worker reports its outcome

	// message holds the header, which ends at headRoom, and the call message,
	// which begins there.
	message *regmem.Buffer
	// header holds the header instead, if the peer reads message. If the message has
	// several parts, it holds the headers of the parts after the first.
	header *regmem.Buffer
	// memory is what window i exposes, from offset memoryOff. owned means that we must
	// release it.
	memory  []exposed
	windows []window // same order as out.Windows, from Launch until they are fenced
	reply   []byte   // reply message that came inline
	rpc     *RPC     // the call, until it returns
	head    []byte   // storage for its RPC header
	// read holds the chunks of a reply that was read, parts each chunk.
	read  *regmem.Buffer
	parts [][]byte

	// pullup counts bytes copied to send them, fixup bytes copied to where the caller wants
	// them.
	pullup, fixup int

	exposing bool // the binds are not posted yet
	fenceDue bool // fence once the binds are posted
}

// exposed is the memory under a window.
type exposed struct {
	buf   *regmem.Buffer
	off   int
	owned bool
}

// acquire returns a free pending call. done is that of Go, or nil if the caller waits. The
// connection is not freed before busy.Done, which follows release.
func (r *Requester) acquire(done Done) (*pending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.dead:
		return nil, r.endedLocked()
	case r.draining:
		return nil, ErrDraining
	}
	r.inCalls++
	r.busy.Add(1)
	if n := len(r.idle); n > 0 {
		p := r.idle[n-1]
		r.idle = r.idle[:n-1]
		p.toDo = done
		return p, nil
	}
	p := &pending{r: r, done: make(chan struct{}, 1), toDo: done}
	p.out.Tag = len(r.pend)
	r.pend = append(r.pend, p)
	return p, nil
}

// release frees a pending call whose outcome was used.
func (r *Requester) release(p *pending) {
	p.freeMemory()
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.stats.PullupBytes += uint64(p.pullup)
	r.stats.FixupBytes += uint64(p.fixup)
	p.pullup, p.fixup, p.toDo = 0, 0, nil
	p.out.Err = nil // the next call is planned as a new one
	r.idle = append(r.idle, p)
	r.inCalls--
	r.drained()
}

// freeMemory frees what the call holds, except its windows.
func (p *pending) freeMemory() {
	for _, b := range []**regmem.Buffer{&p.message, &p.header, &p.read} {
		if *b != nil {
			(*b).Release()
			*b = nil
		}
	}
	for i, m := range p.memory {
		if m.owned {
			m.buf.Release()
		}
		p.memory[i] = exposed{}
	}
	p.memory, p.parts, p.rpc = p.memory[:0], nil, nil
}

// launch sends a call that has a credit: it binds the call's windows, then sends.
func (r *Requester) launch(p *pending) {
	var ok bool
	if r.acts, ok = r.core.Launch(&p.out, r.acts); !ok {
		return
	}
	binary.BigEndian.PutUint32(p.message.Bytes()[headRoom:], p.out.XID)
	o := r.sq.newOp(opExpose, p.out.Tag)
	for i := range p.out.Windows {
		m := &p.memory[i]
		w, err := r.expose(o, m.buf, m.off, p.out.Windows[i].Length, p.out.Windows[i].Use)
		if err != nil {
			r.sq.recycle(o)
			r.dieLocked(err)
			return
		}
		p.windows = append(p.windows, w)
	}
	p.exposing, p.fenceDue = true, false
	r.submit(o)
}

// exposed implements role. The windows have their keys, so the Send follows.
func (r *Requester) exposed(o *op) {
	p := r.pend[o.slot]
	for i, w := range p.windows {
		p.out.Windows[i].RKey, p.out.Windows[i].Addr = w.RKey(), w.Addr()
	}
	p.out.Build()
	r.sendCall(o, p)
	o.kind = opRequest
	r.countCall(p)
	p.exposing = false
	if p.fenceDue {
		p.fenceDue = false
		r.fence(p)
		r.carryOut()
	}
}

// sendCall adds the Sends of a call: the header with the message or its first part, then
// each further part with its own header.
func (r *Requester) sendCall(o *op, p *pending) {
	size := p.out.Header.Size()
	buf, start, length := &p.header, headRoom-size, size+p.out.First
	if p.out.First > 0 {
		buf = &p.message
	}
	p.out.Header.Append((*buf).Bytes()[start:start:headRoom])
	r.addSend(o, o.sgl((*buf).SGE(start, length)))
	at := headRoom + p.out.First
	for i := range p.out.More {
		t := &p.out.More[i]
		off := i * transmission.ContinueSize
		t.Header.Append(p.header.Bytes()[off:off])
		r.addSend(o, o.sgl(p.header.SGE(off, transmission.ContinueSize), p.message.SGE(at, t.Length)))
		at += t.Length
	}
	// The call may be finished before its Sends complete.
	for _, b := range []**regmem.Buffer{&p.message, &p.header} {
		if *b != nil && (b == buf || len(p.out.More) > 0) {
			o.hold(*b)
			*b = nil
		}
	}
}

func (l *link) addSend(o *op, sgl []verbs.SGE) {
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpSend, SGL: sgl})
	l.stats.Sends++
	for _, s := range sgl {
		l.stats.BytesSent += uint64(s.Length)
	}
}

// completed implements the Complete action: it wakes the caller.
func (r *Requester) completed(p *pending) {
	r.countReply(p)
	r.recycleWindows(&p.windows)
	r.finished(p)
}

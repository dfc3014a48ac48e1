package rping

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// MaxSize is the largest payload, in bytes. The limit of rping itself is one
// less.
const MaxSize = 64 << 10

const (
	messageSize = 16 // of every Send, in bytes
	queueDepth  = 16
	receives    = 2
)

// Work request IDs say what has completed.
const (
	idSend uint64 = iota
	idReceive
	idRDMA
	idCount
)

// connParam has the values that rping uses.
var connParam = rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1}

// message says where the peer reads or writes.
type message struct {
	addr uint64
	rkey uint32
	size uint32
}

func (m message) encode(b []byte) {
	binary.BigEndian.PutUint64(b[0:], m.addr)
	binary.BigEndian.PutUint32(b[8:], m.rkey)
	binary.BigEndian.PutUint32(b[12:], m.size)
}

func decode(b []byte) message {
	return message{
		addr: binary.BigEndian.Uint64(b[0:]),
		rkey: binary.BigEndian.Uint32(b[8:]),
		size: binary.BigEndian.Uint32(b[12:]),
	}
}

// endpoint is one side of a connection and its memory.
type endpoint struct {
	id   rdmacm.ID
	pd   verbs.PD
	cq   verbs.CQ
	qp   verbs.QP
	send verbs.MR   // for the message to send
	recv verbs.MR   // for the received message
	data []verbs.MR // payload buffers of MaxSize bytes

	sending   bool         // a message was posted before
	completed [idCount]int // polled completions that were not yet awaited
}

// newEndpoint makes queues and memory and posts the first receive.
func newEndpoint(id rdmacm.ID, buffers int) (*endpoint, error) {
	e := &endpoint{id: id}
	if err := e.setUp(buffers); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func (e *endpoint) setUp(buffers int) (err error) {
	if e.pd, err = e.id.Device().AllocPD(); err != nil {
		return err
	}
	if e.cq, err = e.id.Device().CreateCQ(2 * queueDepth); err != nil {
		return err
	}
	e.qp, err = e.id.CreateQP(e.pd, verbs.QPAttr{
		SendCQ: e.cq, RecvCQ: e.cq, SigAll: true,
		MaxSendWR: queueDepth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1,
	})
	if err != nil {
		return err
	}
	if e.send, err = e.pd.RegMR(make([]byte, messageSize), 0); err != nil {
		return err
	}
	if e.recv, err = e.pd.RegMR(make([]byte, messageSize), verbs.AccessLocalWrite); err != nil {
		return err
	}
	for range buffers {
		mr, err := e.pd.RegMR(make([]byte, MaxSize),
			verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
		if err != nil {
			return err
		}
		e.data = append(e.data, mr)
	}
	return e.postReceive()
}

// close frees all resources, the connection first.
func (e *endpoint) close() error {
	errs := []error{e.id.Close()}
	for _, mr := range append(e.data, e.send, e.recv) {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	if e.cq != nil {
		errs = append(errs, e.cq.Close())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	return errors.Join(errs...)
}

func (e *endpoint) postReceive() error {
	_, err := e.qp.PostRecv([]verbs.RecvWR{{ID: idReceive, SGL: []verbs.SGE{{MR: e.recv, Length: messageSize}}}})
	return err
}

func (e *endpoint) post(wr verbs.SendWR) error {
	_, err := e.qp.PostSend([]verbs.SendWR{wr})
	return err
}

// tell sends a message after the previous one has completed. It does not wait
// for its own completion, because a client that has received the last message
// may disconnect first.
func (e *endpoint) tell(ctx context.Context, m message) error {
	if e.sending {
		if err := e.await(ctx, idSend); err != nil {
			return err
		}
	}
	e.sending = true
	m.encode(e.send.Bytes())
	wr := verbs.SendWR{ID: idSend, Op: verbs.OpSend, SGL: []verbs.SGE{{MR: e.send, Length: messageSize}}}
	return e.post(wr)
}

// hear waits for the peer's next message.
func (e *endpoint) hear(ctx context.Context) (message, error) {
	if err := e.await(ctx, idReceive); err != nil {
		return message{}, err
	}
	m := decode(e.recv.Bytes())
	return m, e.postReceive()
}

// await waits for one completion of a kind. It counts others for later.
func (e *endpoint) await(ctx context.Context, id uint64) error {
	var wcs [4]verbs.WC
	for e.completed[id] == 0 {
		if err := e.cq.Wait(ctx); err != nil {
			return err
		}
		for _, wc := range wcs[:e.cq.Poll(wcs[:])] {
			if wc.Status != verbs.WCSuccess {
				return errors.Join(fmt.Errorf("rping: %v", wc.Status), e.qp.Err())
			}
			if wc.Op == verbs.WCRecv && wc.ByteLen != messageSize {
				return fmt.Errorf("rping: a message of %d bytes", wc.ByteLen)
			}
			e.completed[wc.ID]++
		}
	}
	e.completed[id]--
	return nil
}

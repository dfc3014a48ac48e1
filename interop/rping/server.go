package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Serve accepts a connection request and answers pings until the client
// disconnects. It returns the number of answered pings.
func Serve(ctx context.Context, id rdmacm.ID) (pings int, err error) {
	e, err := newEndpoint(id, 1)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	if err := id.Accept(ctx, connParam); err != nil {
		return 0, err
	}
	for {
		more, err := e.answer(ctx)
		if err != nil {
			return pings, fmt.Errorf("after %d pings: %w", pings, err)
		}
		if !more {
			return pings, nil
		}
		pings++
	}
}

// answer answers one ping. It returns false if the client has disconnected.
func (e *endpoint) answer(ctx context.Context) (more bool, err error) {
	source, err := e.hear(ctx)
	if errors.Is(err, verbs.ErrDisconnected) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if source.size < 1 || source.size > MaxSize {
		return false, fmt.Errorf("rping: a client's buffer of %d bytes", source.size)
	}
	if err := e.move(ctx, verbs.OpRDMARead, source, int(source.size)); err != nil {
		return false, err
	}
	if err := e.tell(ctx, message{}); err != nil {
		return false, err
	}
	sink, err := e.hear(ctx)
	if err != nil {
		return false, err
	}
	length := bytes.IndexByte(e.data[0].Bytes()[:source.size], 0) + 1
	if length == 0 || length > int(sink.size) {
		return false, errors.New("rping: the client's data is no string")
	}
	if err := e.move(ctx, verbs.OpRDMAWrite, sink, length); err != nil {
		return false, err
	}
	return true, e.tell(ctx, message{})
}

// move reads from or writes to the client's buffer by RDMA.
func (e *endpoint) move(ctx context.Context, op verbs.Opcode, peer message, length int) error {
	err := e.post(verbs.SendWR{
		ID: idRDMA, Op: op, SGL: []verbs.SGE{{MR: e.data[0], Length: length}},
		RemoteAddr: peer.addr, RKey: peer.rkey,
	})
	if err != nil {
		return err
	}
	return e.await(ctx, idRDMA)
}

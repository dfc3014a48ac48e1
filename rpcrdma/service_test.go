package rpcrdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Procedures of the test service.
const (
	procNull  = 0
	procEcho  = 1 // opaque<> -> opaque<>, never apart
	procRead  = 2 // size, seed -> before, opaque<> apart, after
	procWrite = 3 // opaque<> apart, trailer -> length, crc, trailer
	procPanic = 4
	procHeap  = 5 // as procRead, from memory that is not registered
)

const maxOpaque = 1 << 20

// pattern fills b by seed.
func pattern(b []byte, seed uint32) {
	v := uint64(seed)
	for len(b) >= 8 {
		v = v*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b, v)
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(v >> (8 * i))
	}
}

// service is what the tests call.
type service struct{}

func (service) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	d := xdr.NewDecoder(c.Args.Stream)
	switch c.Procedure {
	case procNull:
		return nil
	case procEcho:
		b := c.Args.Opaque(&d, maxOpaque)
		if d.Err() != nil {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		r.Stream = xdr.AppendOpaque(r.Stream, b)
		return nil
	case procRead, procHeap:
		size, seed := d.Uint32(), d.Uint32()
		if d.Err() != nil || size > maxOpaque {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		return read(ctx, r, int(size), seed, c.Procedure == procHeap)
	case procWrite:
		b := c.Args.Opaque(&d, maxOpaque)
		trailer := d.Uint32()
		if d.Err() != nil {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		r.Stream = xdr.AppendUint32(r.Stream, uint32(len(b)))
		r.Stream = xdr.AppendUint32(r.Stream, crc32.ChecksumIEEE(b))
		r.Stream = xdr.AppendUint32(r.Stream, trailer)
		return nil
	case procPanic:
		panic("as asked")
	}
	return &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
}

// heapBuffer is memory that no transport knows.
type heapBuffer []byte

func (h heapBuffer) Bytes() []byte { return h }
func (heapBuffer) Release()        {}

func read(ctx context.Context, r *oncrpc.Reply, size int, seed uint32, heap bool) error {
	var buf oncrpc.Buffer = make(heapBuffer, size)
	if !heap {
		var err error
		if buf, err = r.Mem.Alloc(ctx, size); err != nil {
			return err
		}
	}
	pattern(buf.Bytes()[:size], seed)
	r.Stream = xdr.AppendUint32(r.Stream, seed)
	r.Stream = xdr.AppendUint32(r.Stream, uint32(size))
	r.AppendItem(buf, size)
	r.Stream = xdr.AppendUint32(r.Stream, ^seed)
	return nil
}

var errWrong = errors.New("wrong data came back")

// call makes a call of the test service.
func newCall(proc uint32) rpcrdma.Call {
	return rpcrdma.Call{Program: 0x20000001, Version: 1, Procedure: proc}
}

// caller is who calls: a client, or a server that calls its client.
type caller interface {
	Call(ctx context.Context, call *rpcrdma.Call) error
}

// begin runs f, usually a call, in a goroutine. The channel gets its outcome.
func begin(f func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// plain makes a call without arguments and without results.
func plain(ctx context.Context, c caller, proc uint32) error {
	call := newCall(proc)
	return c.Call(ctx, &call)
}

// echo calls procEcho with n bytes and checks the answer.
func echo(ctx context.Context, c caller, n int, seed uint32) error {
	b := make([]byte, n)
	pattern(b, seed)
	call := newCall(procEcho)
	call.Args = xdr.AppendOpaque(nil, b)
	call.MaxReply = len(call.Args)
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	if string(call.Reply) != string(call.Args) {
		return errWrong
	}
	return nil
}

// readBack calls procRead (or procHeap) for n bytes into a buffer for limit
// and checks what came, apart or not.
func readBack(ctx context.Context, c *rpcrdma.Client, proc uint32, n, limit int, seed uint32) error {
	buf, err := c.Alloc(ctx, max(limit+3, 1))
	if err != nil {
		return err
	}
	defer buf.Release()
	call := newCall(proc)
	call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), seed)
	call.MaxReply = 12
	call.Results = []rpcrdma.Result{{Buf: buf, Max: limit, Find: func([]byte) int { return 4 }}}
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	d := xdr.NewDecoder(call.Reply)
	gotSeed, length := d.Uint32(), d.Uint32()
	data := buf.Bytes()[:call.Results[0].Apart]
	if call.Results[0].Apart == 0 && length > 0 {
		data = d.Fixed(int(length))
	}
	after := d.Uint32()
	want := make([]byte, n)
	pattern(want, seed)
	if d.Err() != nil || gotSeed != seed || after != ^seed || int(length) != n || string(data[:n]) != string(want) {
		return errWrong
	}
	return nil
}

// writeOut calls procWrite with n bytes and checks the answer.
func writeOut(ctx context.Context, c *rpcrdma.Client, n int, seed uint32) error {
	buf, err := c.Alloc(ctx, max(n, 1))
	if err != nil {
		return err
	}
	defer buf.Release()
	pattern(buf.Bytes()[:n], seed)
	return writeFrom(ctx, c, buf, n, seed)
}

func writeFrom(ctx context.Context, c caller, buf oncrpc.Buffer, n int, seed uint32) error {
	call := newCall(procWrite)
	call.Args = xdr.AppendUint32(nil, uint32(n))
	call.Items = []oncrpc.ReplyItem{{Pos: 4, Buf: buf, Len: n}}
	call.Args = xdr.AppendUint32(call.Args, seed)
	call.MaxReply = 12
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	d := xdr.NewDecoder(call.Reply)
	length, sum, trailer := d.Uint32(), d.Uint32(), d.Uint32()
	if d.Err() != nil || int(length) != n || sum != crc32.ChecksumIEEE(buf.Bytes()[:n]) || trailer != seed {
		return errWrong
	}
	return nil
}

type (
	call  = oncrpc.Call
	reply = oncrpc.Reply
)

// zero is the test service without looking at or making data.
type zero struct{}

func (zero) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	d := xdr.NewDecoder(c.Args.Stream)
	switch c.Procedure {
	case procRead:
		n := int(d.Uint32())
		buf, err := r.Mem.Alloc(ctx, n)
		if err != nil {
			return err
		}
		r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
		r.AppendItem(buf, n)
	case procWrite:
		c.Args.Claim()
	case procEcho:
		r.Stream = xdr.AppendOpaque(r.Stream, c.Args.Opaque(&d, maxOpaque))
	default:
		c.Args.Claim()
	}
	return d.Err()
}

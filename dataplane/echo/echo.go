// Package echo is the service that tests and benchmarks call: ONC RPC program
// 0x20020049 version 1, whose procedures move payload of every size through
// each way that a transport has, and let the caller check every byte.
//
//	0 NULL   -> nothing
//	1 ECHO   opaque<> -> the same opaque<>, not DDP-eligible
//	2 READ   u32 size -> opaque<> of that size, DDP-eligible: see Fill
//	3 WRITE  opaque<>, DDP-eligible -> u32 length, u32 CRC32C
//
// Arguments that can't be decoded, have bytes left over, or ask for more than
// MaxPayload are answered with GARBAGE_ARGS.
package echo

import (
	"context"
	"hash/crc32"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// The program, its version and its procedures.
const (
	Program = 0x20020049
	Version = 1

	ProcNull  = 0
	ProcEcho  = 1
	ProcRead  = 2
	ProcWrite = 3
)

// MaxPayload is the largest payload of a call or a reply, in bytes.
const MaxPayload = 1<<20 + 64<<10

// castagnoli is the table of CRC32C, the checksum that WRITE answers with.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Answers to bad calls, made once.
var (
	errProgUnavail  = &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	errProgMismatch = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: Version, High: Version}
	errProcUnavail  = &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	errGarbageArgs  = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
)

// Service implements oncrpc.Handler. It has no state.
type Service struct{}

// New returns the echo service.
func New() *Service { return &Service{} }

// ServeRPC implements oncrpc.Handler.
func (*Service) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	if call.Program != Program {
		return errProgUnavail
	}
	if call.Version != Version {
		return errProgMismatch
	}
	switch call.Procedure {
	case ProcNull:
		return null(call)
	case ProcEcho:
		return echo(call, reply)
	case ProcRead:
		return read(ctx, call, reply)
	case ProcWrite:
		return write(call, reply)
	default:
		return errProcUnavail
	}
}

func null(call *oncrpc.Call) error {
	if len(call.Args.Stream) != 0 || len(call.Args.Items) != 0 {
		return errGarbageArgs
	}
	return nil
}

func echo(call *oncrpc.Call, reply *oncrpc.Reply) error {
	data, ok := opaqueArg(&call.Args)
	if !ok {
		return errGarbageArgs
	}
	reply.Stream = xdr.AppendOpaque(reply.Stream, data)
	return nil
}

func read(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	d := xdr.NewDecoder(call.Args.Stream)
	size := d.Length(MaxPayload)
	if d.Err() != nil || d.Len() != 0 || len(call.Args.Items) != 0 {
		return errGarbageArgs
	}
	reply.Stream = xdr.AppendUint32(reply.Stream, uint32(size))
	if size == 0 {
		return nil
	}
	buf, err := reply.Mem.Alloc(ctx, size)
	if err != nil {
		return err
	}
	Fill(buf.Bytes()[:size])
	reply.AppendItem(buf, size)
	return nil
}

func write(call *oncrpc.Call, reply *oncrpc.Reply) error {
	var store [8][]byte
	parts, ok := opaqueParts(store[:0], &call.Args)
	if !ok {
		return errGarbageArgs
	}
	n, sum := 0, uint32(0)
	for _, part := range parts {
		n, sum = n+len(part), crc32.Update(sum, castagnoli, part)
	}
	reply.Stream = xdr.AppendUint32(reply.Stream, uint32(n))
	reply.Stream = xdr.AppendUint32(reply.Stream, sum)
	return nil
}

// opaqueArg decodes arguments that are one opaque, in the stream or apart
// from it, and nothing else.
func opaqueArg(args *oncrpc.Payload) (data []byte, ok bool) {
	d := xdr.NewDecoder(args.Stream)
	data = args.Opaque(&d, MaxPayload)
	return data, alone(args, &d)
}

// opaqueParts does so where the opaque is, in one part or several.
func opaqueParts(dst [][]byte, args *oncrpc.Payload) (parts [][]byte, ok bool) {
	d := xdr.NewDecoder(args.Stream)
	parts = args.Parts(dst, &d, MaxPayload)
	return parts, alone(args, &d)
}

// alone says whether d has decoded all of args.
func alone(args *oncrpc.Payload, d *xdr.Decoder) bool {
	return d.Err() == nil && d.Len() == 0 && args.Claimed()
}

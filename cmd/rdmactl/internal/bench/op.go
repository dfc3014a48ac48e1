package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Op is the operation of every call.
type Op string

// The ops: NULL of any program, and the procedures of the echo program.
const (
	Null  Op = "null"
	Echo  Op = "echo"  // payload there and back in the RPC messages
	Read  Op = "read"  // payload from the server, by RDMA Write when large
	Write Op = "write" // payload to the server, by RDMA Read when large
)

// Ops lists the operations.
var Ops = []string{string(Null), string(Echo), string(Read), string(Write)}

// Procedures of the echo program.
const (
	procEcho  = 1 // opaque<> -> opaque<>
	procRead  = 2 // size -> opaque<>, whose words hold their offsets
	procWrite = 3 // opaque<> -> length, CRC32C
)

// ErrCorrupt means that the server's answer has wrong data.
var ErrCorrupt = errors.New("wrong data came back")

// maker makes the calls of one worker. It is used by one goroutine.
type maker struct {
	call rpcrdma.Call
	// before spoils what is left of the answer before; check looks at the
	// answer. Either may be nil.
	before func()
	check  func() error
	buf    oncrpc.Buffer
}

// newMaker prepares the calls of worker number i.
func newMaker(ctx context.Context, c *rpcrdma.Client, cfg *Config, i int) (*maker, error) {
	m := &maker{call: rpcrdma.Call{Program: target.Echo.Number, Version: target.Echo.Version}}
	switch cfg.Op {
	case Echo:
		m.echo(cfg.Size, i)
		return m, nil
	case Read:
		return m, m.read(ctx, c, cfg.Size, max(cfg.Size, cfg.Room))
	case Write:
		return m, m.write(ctx, c, cfg.Size, i)
	}
	m.call.Program, m.call.Version = cfg.Program.Number, cfg.Program.Version
	m.check = func() error { return corruptIf(len(m.call.Reply) != 0) }
	return m, nil
}

// release gives the maker's memory back.
func (m *maker) release() {
	if m.buf != nil {
		m.buf.Release()
	}
}

func corruptIf(bad bool) error {
	if bad {
		return ErrCorrupt
	}
	return nil
}

func (m *maker) echo(size, i int) {
	data := make([]byte, size)
	fill(data, i)
	m.call.Procedure = procEcho
	m.call.Args = xdr.AppendOpaque(nil, data)
	m.call.MaxReply = len(m.call.Args)
	m.check = func() error { return corruptIf(!bytes.Equal(m.call.Reply, m.call.Args)) }
}

func (m *maker) read(ctx context.Context, c *rpcrdma.Client, size, room int) (err error) {
	m.call.Procedure = procRead
	m.call.Args = xdr.AppendUint32(nil, uint32(size))
	m.call.MaxReply = xdr.Unit // the length word
	if m.buf, err = c.Alloc(ctx, xdr.Padded(max(room, 1))); err != nil {
		return fmt.Errorf("memory for results: %w", err)
	}
	into := m.buf.Bytes()[:xdr.Padded(size)]
	m.call.Results = []rpcrdma.Result{{Buf: m.buf, Max: room}}
	want := make([]byte, size)
	fill(want, 0)
	m.before = func() { spoil(into) }
	m.check = func() error {
		data := m.call.Reply
		if len(data) < xdr.Unit || binary.BigEndian.Uint32(data) != uint32(size) {
			return ErrCorrupt
		}
		if data = data[xdr.Unit:]; m.call.Results[0].Apart > 0 {
			data = into
		}
		return corruptIf(len(data) < size || !bytes.Equal(data[:size], want))
	}
	return nil
}

// spoilEvery is the distance of the bytes that spoil changes, so that every
// missing RDMA Write is noticed.
const spoilEvery = 512

// spoil makes what is left of an earlier answer wrong.
func spoil(b []byte) {
	for i := 0; i < len(b); i += spoilEvery {
		b[i] = ^b[i]
	}
	if last := len(b) - 4; last > 0 && last%spoilEvery != 0 {
		b[last] = ^b[last]
	}
}

func (m *maker) write(ctx context.Context, c *rpcrdma.Client, size, i int) (err error) {
	m.call.Procedure = procWrite
	m.call.Args = xdr.AppendUint32(nil, uint32(size))
	if m.buf, err = c.Alloc(ctx, max(size, 1)); err != nil {
		return fmt.Errorf("memory for arguments: %w", err)
	}
	data := m.buf.Bytes()[:size]
	fill(data, i)
	m.call.Items = []oncrpc.ReplyItem{{Pos: xdr.Unit, Buf: m.buf, Len: size}}
	m.call.MaxReply = 2 * xdr.Unit
	want := xdr.AppendUint32(nil, uint32(size))
	want = xdr.AppendUint32(want, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	m.check = func() error { return corruptIf(!bytes.Equal(m.call.Reply, want)) }
	return nil
}

// fill fills b so that a byte from another place shows, and with i other than
// 0 one of another worker: words of their offsets, plus i in the top byte.
func fill(b []byte, i int) {
	var word [4]byte
	for off := 0; off < len(b); off += 4 {
		binary.BigEndian.PutUint32(word[:], uint32(off)+uint32(i)<<24)
		copy(b[off:], word[:])
	}
}

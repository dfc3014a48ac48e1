package forward

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// oneBuffer is memory that is always the same.
type oneBuffer struct{ plain }

func (b *oneBuffer) Alloc(context.Context, int) (oncrpc.Buffer, error) { return b, nil }

// TestNoAllocation: a READ of 64 KiB and a WRITE pass through without one.
func TestNoAllocation(t *testing.T) {
	const size = 64 << 10
	data := make([]byte, size)
	writeArgs := enc("handle42", 0, 0, size, 0, size)
	pad := oncrpc.Padding{Align: 512, Thresh: 512, Base: 48}
	padded := slices.Concat(writeArgs, make([]byte, pad.Before(len(writeArgs), size)), data)
	for name, c := range map[string]struct {
		call  oncrpc.Call
		reply []byte
		items int
	}{
		"READ": {oncrpc.Call{Program: nfsProgram, Version: 3, Procedure: 6, Args: oncrpc.Payload{Stream: enc("handle42", 0, 0, size)}},
			success(0, 0, 0, size, 1, size, data), 1},
		"WRITE": {oncrpc.Call{Program: nfsProgram, Version: 3, Procedure: 7,
			Args: oncrpc.Payload{Stream: writeArgs, Items: []oncrpc.Item{{Pos: len(writeArgs), Data: data}}}},
			success(0, 0, 0, 0, size, 2, 0, 0), 0},
		"WRITE in parts": {oncrpc.Call{Program: nfsProgram, Version: 3, Procedure: 7,
			Args: oncrpc.Payload{Stream: writeArgs, Items: []oncrpc.Item{{Pos: len(writeArgs), Data: data[:4096], More: [][]byte{data[4096:]}}}}},
			success(0, 0, 0, 0, size, 2, 0, 0), 0},
		"WRITE padded": {oncrpc.Call{Program: nfsProgram, Version: 3, Procedure: 7,
			Args: oncrpc.Payload{Stream: padded, Padding: pad}},
			success(0, 0, 0, 0, size, 2, 0, 0), 0},
		"NULL": {oncrpc.Call{Program: nfsProgram, Version: 3}, success(0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			nc := newScriptConn()
			s := newSession(New(Config{}), netip.AddrPort{}, nc)
			defer s.Close()
			answer := record(c.reply, 0)
			nc.wrote = func(b []byte) {
				if len(b) < 200 && len(b) >= 44 { // the call's header
					binary.BigEndian.PutUint32(answer[4:], binary.BigEndian.Uint32(b[4:]))
					nc.next <- answer
				}
			}
			reply := &oncrpc.Reply{Stream: make([]byte, 0, 4096), Mem: &oneBuffer{make(plain, size)}}
			xid, w := uint32(0), newWaiter(s)
			run := func() {
				xid++
				c.call.XID = xid
				reply.Release()
				if err := w.serve(context.Background(), &c.call, reply); err != nil || len(reply.Items) != c.items {
					t.Errorf("%v, %d items", err, len(reply.Items))
				}
			}
			run()
			if n := testing.AllocsPerRun(200, run); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

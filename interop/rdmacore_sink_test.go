package interop

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// sink is where an RDMA Read Request says that its data goes.
type sink struct {
	verbstest.Remote
	size uint32
}

// sinkSpy finds the RDMA Read Requests in an iWARP stream.
type sinkSpy struct {
	data    []byte // not looked at
	started bool   // past the MPA frame
	found   func(sink)
}

// Read Requests in an FPDU (RFC 5041 §4.3, RFC 5040 §4.4).
const (
	spyControl     = 3 // RDMAP's, after the length and DDP's
	spyReadRequest = 20
	spyOpcode      = 0x0f
	opReadRequest  = 1
)

// see takes the next bytes of the stream.
func (s *sinkSpy) see(data []byte) {
	s.data = append(s.data, data...)
	for {
		n := s.next()
		if n == 0 || n > len(s.data) {
			return
		}
		if frame := s.data[:n]; s.started && frame[spyControl]&spyOpcode == opReadRequest {
			s.found(sink{
				Remote: verbstest.Remote{RKey: binary.BigEndian.Uint32(frame[spyReadRequest:]), Addr: binary.BigEndian.Uint64(frame[spyReadRequest+4:])},
				size:   binary.BigEndian.Uint32(frame[spyReadRequest+12:]),
			})
		}
		s.data, s.started = s.data[n:], true
	}
}

// next returns the size of the frame at the start of the data, or 0 if more
// bytes are needed.
func (s *sinkSpy) next() int {
	switch {
	case !s.started && len(s.data) >= mpaFrame:
		return mpaFrame + int(binary.BigEndian.Uint16(s.data[mpaFrame-2:]))
	case s.started && len(s.data) >= 2:
		return fpduSize(int(binary.BigEndian.Uint16(s.data)))
	}
	return 0
}

// sinkAttack is an RDMA Write to the memory that a call's data is read into.
type sinkAttack struct {
	name    string
	off     func(s sink) int
	n       int
	late    bool // after the reply
	refused bool
}

func (a sinkAttack) String() string { return a.name }

var sinkAttacks = []sinkAttack{
	{"its first bytes, while it is read", func(sink) int { return 0 }, attackSize, false, false},
	{"the byte before, while it is read", func(sink) int { return -1 }, 1, false, true},
	{"the byte after, while it is read", func(s sink) int { return int(s.size) }, 1, false, true},
	{"a page after, while it is read", func(s sink) int { return int(s.size) + 4096 }, attackSize, false, true},
	{"its first bytes, after the reply", func(sink) int { return 0 }, attackSize, true, true},
}

// testHostileSinks attacks the memory into which rdmad reads a call's data, on
// a device that lets the peer write there. The peer reaches these bytes while
// they are read, and nothing else and not later (RFC 5042 §6.2.2). siw plays
// such a device.
func testHostileSinks(t *testing.T, g *guest.Guest, p rdmacm.Provider) {
	underAttack(t, g, p, withSinks(guestEchoConfig()), sinkAttacks)
}

// fetched is the size of the argument of an attacker's call, in bytes.
const fetched = 64 << 10

// writeCall returns a WRITE call whose argument rdmad must read.
func writeCall(arg verbs.MR) []byte {
	const xid, procWrite = 11, 3
	h := rpcrdma1.Header{XID: xid, Credits: 1, Version: 1, Proc: rpcrdma1.Msg, Reads: []rpcrdma1.ReadSegment{{
		Position: 44, Segment: rpcrdma1.Segment{Handle: arg.RKey(), Length: fetched, Offset: arg.Addr()},
	}}}
	msg := oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: xid, Program: echoProgram, Version: 1, Procedure: procWrite})
	return binary.BigEndian.AppendUint32(msg, fetched)
}

// against makes a call through a relay that holds the Read Request back until
// the attacker has seen its sink.
func (a sinkAttack) against(ctx context.Context, t *testing.T, p rdmacm.Provider, address string) error {
	seen := make(chan sink, 1)
	through := newRelay(t, address)
	spy := sinkSpy{found: func(s sink) {
		through.hold(true)
		seen <- s
	}}
	through.seen = spy.see
	data := wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)
	side, err := verbstest.Dial(ctx, t, p, through.address(), verbstest.Options{ActiveData: data})
	if err != nil {
		return err
	}
	defer side.Close()
	greet(side)
	arg := side.Register(make([]byte, fetched), verbs.AccessRemoteRead)
	for i := range arg.Bytes() {
		arg.Bytes()[i] = byte(rand.Uint32())
	}
	const call, strike = 8, 9
	n := copy(side.Bytes(8192, 4096), writeCall(arg))
	side.Receive(call, 0, 4096)
	side.Post(verbstest.Send(call, side.SGE(8192, n)))
	side.Done(call, verbs.WCSend)
	var to sink
	select {
	case to = <-seen:
	case <-side.ID.Disconnected():
		return fmt.Errorf("nothing is read: %w", side.QP.Err())
	}
	if to.size != fetched {
		return fmt.Errorf("%d bytes are read at once, want %d", to.size, fetched)
	}
	write := verbstest.Write(strike, to.At(a.off(to)), side.SGE(16384, a.n))
	if !a.late {
		side.Post(write)
	}
	through.hold(false)
	if a.late || !a.refused {
		if err := answered(side, call, arg); err != nil {
			return err
		}
	}
	if a.late {
		side.Post(write)
	}
	if a.refused {
		return refused(ctx, side)
	}
	side.Done(strike, verbs.WCRDMAWrite)
	return nil
}

// answered takes the reply of a call, whose argument must have arrived whole.
func answered(side *verbstest.Side, call uint64, arg verbs.MR) error {
	wc := side.Received()
	if wc.ID != call || wc.Status != verbs.WCSuccess || wc.ByteLen < 8 {
		return fmt.Errorf("the call is answered by %+v: %w", wc, side.QP.Err())
	}
	sum := binary.BigEndian.Uint32(side.Bytes(wc.ByteLen-4, 4))
	if want := crc32.Checksum(arg.Bytes(), crc32.MakeTable(crc32.Castagnoli)); sum != want {
		return fmt.Errorf("the argument arrived with CRC32C %#x, want %#x", sum, want)
	}
	return nil
}

// refused waits for the end of a connection.
func refused(ctx context.Context, side *verbstest.Side) error {
	select {
	case <-side.ID.Disconnected():
		return nil
	case <-ctx.Done():
		return errors.New("the connection goes on")
	}
}

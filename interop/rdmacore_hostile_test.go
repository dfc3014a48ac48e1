package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// attack is what a hostile peer does after it has connected.
type attack struct {
	name string
	post func(own verbs.MR) []verbs.SendWR
}

func (a attack) String() string { return a.name }

// attackSize is the number of bytes that attackers write and read.
const attackSize = 4096

// reach is an operation on memory that nothing offered: the attacker guesses
// rdmad's keys.
func reach(name string, op verbs.Opcode, key func() uint32) attack {
	return attack{name, func(own verbs.MR) []verbs.SendWR {
		return []verbs.SendWR{{
			ID: 1, Op: op, Flags: verbs.SendSignaled, RemoteAddr: rand.Uint64N(1 << 47), RKey: key(), SGL: []verbs.SGE{{MR: own, Length: attackSize}},
		}}
	}}
}

// message is a Send whose bytes fill makes.
func message(name string, op verbs.Opcode, fill func(own verbs.MR) []byte) attack {
	return attack{name, func(own verbs.MR) []verbs.SendWR {
		n := copy(own.Bytes(), fill(own))
		return []verbs.SendWR{{ID: 1, Op: op, Flags: verbs.SendSignaled, InvalidateRKey: rand.Uint32(), SGL: []verbs.SGE{{MR: own, Length: n}}}}
	}}
}

// reading is a call whose argument rdmad must read from a segment that the
// attacker chooses.
func reading(segment rpcrdma1.Segment) []byte {
	h := rpcrdma1.Header{XID: 1, Credits: 1, Version: 1, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: segment}}}
	return h.Append(nil)
}

var attacks = []attack{
	reach("RDMA Write to key 0", verbs.OpRDMAWrite, func() uint32 { return 0 }),
	reach("RDMA Write to a guess", verbs.OpRDMAWrite, rand.Uint32),
	reach("RDMA Read of key 0", verbs.OpRDMARead, func() uint32 { return 0 }),
	reach("RDMA Read of a guess", verbs.OpRDMARead, rand.Uint32),
	message("Send longer than a receive", verbs.OpSend, func(own verbs.MR) []byte { return make([]byte, len(own.Bytes())) }),
	message("invalidation of a guess", verbs.OpSendInvalidate, func(verbs.MR) []byte { return make([]byte, 64) }),
	message("read chunk that is not there", verbs.OpSend, func(verbs.MR) []byte {
		return reading(rpcrdma1.Segment{Handle: rand.Uint32(), Length: 64 << 10, Offset: rand.Uint64()})
	}),
	message("read chunk longer than its region", verbs.OpSend, func(own verbs.MR) []byte {
		return reading(rpcrdma1.Segment{Handle: own.RKey(), Length: 1 << 20, Offset: own.Addr()})
	}),
}

// testHostile attacks an rdmad on rdmacore with peers that access its memory or
// lie about their own. They get nothing and lose their connection. Connections
// of other peers continue (RFC 5042).
func testHostile(t *testing.T, g *guest.Guest, p rdmacm.Provider) {
	underAttack(t, g, p, guestEchoConfig(), attacks)
}

// attacker is a peer that connects and attacks. It returns an error if rdmad
// did not behave as it must.
type attacker interface {
	fmt.Stringer
	against(ctx context.Context, t *testing.T, p rdmacm.Provider, address string) error
}

// underAttack connects attackers, one after the other, to an echoing rdmad in
// the guest. The connection of another peer must continue, and rdmad must log
// no fault of its own.
func underAttack[A attacker](t *testing.T, g *guest.Guest, p rdmacm.Provider, config string, attackers []A) {
	r := startGuestRdmad(t, g, guestServer{name: "echo", text: config, limits: rdmacoreLimits})
	defer r.stop(t)
	address := fmt.Sprintf("127.0.0.1:%d", g.HostPort(echoPort))
	ctx, cancel := context.WithTimeout(t.Context(), knfsdTime)
	defer cancel()
	witness, err := rpcrdma.Dial(ctx, p, address, rpcrdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Close()
	for _, a := range attackers {
		t.Run(a.String(), func(t *testing.T) {
			if err := a.against(ctx, t, p, address); err != nil {
				t.Error(err)
			}
			if err := witness.Call(ctx, &rpcrdma.Call{Program: echoProgram, Version: 1}); err != nil {
				t.Errorf("the connection of another: %v", err)
			}
		})
	}
	if lines := g.MustRun(t, adapterTime, `grep -E '"level":"ERROR"|panic' /tmp/echo.log || true`); lines != "" {
		t.Errorf("rdmad says\n%s", lines)
	}
}

const echoProgram = 0x20020049

// greet has rdmad answer something: siw's kernel does not survive a fault in what
// comes with the announcement that the peer is ready.
func greet(side *verbstest.Side) {
	const id = 7
	h := rpcrdma1.Header{XID: 1, Version: 9, Credits: 1, Proc: rpcrdma1.Msg}
	n := copy(side.Bytes(8192, 64), h.Append(nil))
	side.Receive(id, 0, 4096)
	side.Post(verbstest.Send(id, side.SGE(8192, n)))
	side.Done(id, verbs.WCSend)
	side.Received()
}

// against connects, attacks, and waits until rdmad has ended the connection.
func (a attack) against(ctx context.Context, t *testing.T, p rdmacm.Provider, address string) error {
	data := wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)
	side, err := verbstest.Dial(ctx, t, p, address, verbstest.Options{ActiveData: data})
	if err != nil {
		return err
	}
	defer side.Close()
	greet(side)
	own := side.Register(make([]byte, 4*attackSize), verbs.AccessLocalWrite|verbs.AccessRemoteRead)
	if _, err := side.QP.PostSend(a.post(own)); err != nil {
		return err
	}
	var wc [1]verbs.WC
	if err := side.SendCQ.Wait(ctx); err != nil {
		return err
	}
	side.SendCQ.Poll(wc[:])
	if wc[0].Status == verbs.WCSuccess && wc[0].Op == verbs.WCRDMARead {
		return errors.New("rdmad's memory was read")
	}
	select {
	case <-side.ID.Disconnected():
		return nil
	case <-ctx.Done():
		return errors.New("the connection goes on")
	}
}

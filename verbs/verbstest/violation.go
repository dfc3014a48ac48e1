package verbstest

import (
	"bytes"
	"errors"

	"github.com/rdmad/rdmad/verbs"
)

// victim is memory of B that A has no business with, in the middle of a
// buffer whose every byte must stay as it was.
type victim struct {
	p   *Pair
	buf []byte
	mr  verbs.MR
}

const (
	victimOff  = 4096
	victimSize = 4096
	canary     = 0xa5
)

// newVictim registers the middle of a fresh buffer.
func newVictim(p *Pair, access verbs.Access) *victim {
	v := &victim{p: p, buf: bytes.Repeat([]byte{canary}, 3*4096)}
	v.mr = p.B.Register(v.buf[victimOff:victimOff+victimSize], access)
	return v
}

func (v *victim) untouched() {
	v.p.B.t.Helper()
	for i, b := range v.buf {
		if b != canary {
			v.p.B.t.Fatalf("the victim's byte %d was changed to %#02x", i-victimOff, b)
		}
	}
}

// attack is something a peer must not get away with. aim prepares it and
// says at which memory, and for how many bytes, op (Write or Read) goes.
type attack struct {
	name string
	aim  func(e *env, v *victim, op verbs.Opcode) (Remote, int)
}

// right returns the access that op needs at the peer, wrong the one it does not.
func right(op verbs.Opcode) (needed, other verbs.Access) {
	if op == verbs.OpRDMAWrite {
		return verbs.AccessRemoteWrite, verbs.AccessRemoteRead
	}
	return verbs.AccessRemoteRead, verbs.AccessRemoteWrite
}

// at is an attack on the region itself, n bytes at off.
func at(off, n int) func(*env, *victim, verbs.Opcode) (Remote, int) {
	return func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) { return RemoteMR(v.mr).At(off), n }
}

var regionAttacks = []attack{
	{"one byte beyond the end", at(victimSize-63, 64)},
	{"one byte before the start", at(-1, 64)},
	{"the byte behind the end", at(victimSize, 1)},
	{"longer than the region", at(0, victimSize+1)},
	{"far behind", at(1<<40, 64)},
	{"address that wraps", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		return Remote{Addr: ^uint64(0) - 31, RKey: v.mr.RKey()}, 64
	}},
	{"wrong key", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		return Remote{v.mr.Addr(), v.mr.RKey() ^ 0x5a5a5a}, 64
	}},
	{"key zero", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		return Remote{v.mr.Addr(), 0}, 64
	}},
	{"only the other right", func(_ *env, v *victim, op verbs.Opcode) (Remote, int) {
		_, other := right(op)
		return RemoteMR(v.p.B.Register(v.buf, verbs.AccessLocalWrite|other)), 64
	}},
	{"no remote right", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		return RemoteMR(v.p.B.Register(v.buf, verbs.AccessLocalWrite)), 64
	}},
	{"another PD", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		return RemoteMR(foreignMR(v.p.B)), 64
	}},
	{"closed region", func(_ *env, v *victim, _ verbs.Opcode) (Remote, int) {
		mr, err := v.p.B.PD.RegMR(v.buf, AllAccess)
		Must(v.p.B.t, err)
		at := RemoteMR(mr)
		Must(v.p.B.t, mr.Close())
		return at, 64
	}},
}

// A peer that reaches for memory it was not given loses its connection; the
// memory and all other connections stay as they were.
func testViolations(e *env) {
	witness := e.pair(Options{})
	attacks := regionAttacks
	if e.windows() {
		attacks = append(attacks[:len(attacks):len(attacks)], windowAttacks...)
	}
	for _, op := range []struct {
		name string
		op   verbs.Opcode
	}{{"Write", verbs.OpRDMAWrite}, {"Read", verbs.OpRDMARead}} {
		for _, a := range attacks {
			if e.target.faulty("Violations/" + op.name + "/" + a.name) {
				continue
			}
			e.sub(op.name+"/"+a.name, func(e *env) { violate(e, op.op, a) })
			witness.Exchange(1)
		}
	}
}

func violate(e *env, op verbs.Opcode, a attack) {
	p := e.pair(Options{})
	v := newVictim(p, AllAccess)
	to, n := a.aim(e, v, op)
	sink := filled(n, 7)
	buf := p.A.Register(bytes.Clone(sink), e.attr.SinkAccess())
	p.B.Receive(20, 0, 64)
	p.A.Receive(21, 0, 64)
	p.A.Post(verbs.SendWR{
		ID: 1, Op: op, Flags: verbs.SendSignaled, RemoteAddr: to.Addr, RKey: to.RKey,
		SGL: []verbs.SGE{{MR: buf, Length: n}},
	})
	wc := p.A.Sent()
	if wc.ID != 1 || op == verbs.OpRDMARead && wc.Status == verbs.WCSuccess {
		e.Fatalf("completed with %+v (%v)", wc, wc.Status)
	}
	e.bothEnd(p)
	v.untouched()
	sameBytes(e, "the attacker's own buffer", buf.Bytes(), sink)
	exactlyOnce(e, p.B, nil, []uint64{20})
	exactlyOnce(e, p.A, nil, []uint64{21})
}

// bothEnd waits for the end of a connection that B ended with a Terminate.
func (e *env) bothEnd(p *Pair) {
	e.Helper()
	atA, atB := p.A.Ended(), p.B.Ended()
	if !e.terminates() {
		return
	}
	var a, b *verbs.TerminateError
	if !errors.As(atB, &b) || b.Remote {
		e.Fatalf("the side that was offended ended with %v", atB)
	}
	if !errors.As(atA, &a) || !a.Remote {
		e.Fatalf("the offending side ended with %v", atA)
	}
	if a.Layer != b.Layer || a.Type != b.Type || a.Code != b.Code || a.Reason == "" {
		e.Fatalf("the sides disagree on why: %v, %v", atA, atB)
	}
}

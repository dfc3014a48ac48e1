package verbstest

import (
	"bytes"
	"fmt"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/verbs"
)

// Random programs of valid and invalid Writes, Reads, Sends, binds and invalidations change
// memory as a simple model predicts, and end the connection when it predicts that.
func testRandomPrograms(e *env) {
	rapid.Check(e, func(t *rapid.T) {
		m := newModel(e, t)
		defer m.p.Close()
		actions := map[string]func(*rapid.T){
			"write":   m.write,
			"read":    m.read,
			"send":    m.send,
			"wander":  m.outOfBounds,
			"guess":   m.wrongKey,
			"compare": func(*rapid.T) { m.compare() },
		}
		if e.modelsWindows() && e.invalidates() {
			actions["bind"] = m.bind
			actions["invalidate"] = m.invalidate
			actions["send invalidate"] = m.sendInvalidate
			actions["stale"] = m.stale
		}
		t.Repeat(actions)
		m.compare()
	})
}

const (
	modelSize    = 4096 // of B's memory that A may reach
	modelWindows = 3
)

// model is the expected content of B's memory, and the parts that A may access.
type model struct {
	env     *env
	p       *Pair
	mr      verbs.MR
	mem     []byte
	windows []modelWindow
	spent   []Remote // windows that were revoked
	up      bool
	seed    uint64
}

// modelWindow is a window; bound or not.
type modelWindow struct {
	mw     verbs.MW
	bound  bool
	off, n int
	access verbs.Access
}

func (e *env) modelsWindows() bool {
	return e.windows() && !e.target.faulty("RandomPrograms/windows")
}

func newModel(e *env, t *rapid.T) *model {
	m := &model{env: e, mem: filled(modelSize, 1), up: true}
	m.p = NewPair(t, e.active, e.passive, Options{Listen: e.target.Listen, Buffer: 8192})
	m.mr = m.p.B.Register(bytes.Clone(m.mem), AllAccess)
	for m.env.modelsWindows() && len(m.windows) < modelWindows {
		m.windows = append(m.windows, modelWindow{mw: m.p.B.Window()})
	}
	return m
}

// place is memory of B that A may name: the region or a bound window.
type place struct {
	Remote
	off, n int
	access verbs.Access
}

func (m *model) places() []place {
	all := []place{{RemoteMR(m.mr), 0, modelSize, AllAccess}}
	for _, w := range m.windows {
		if w.bound {
			all = append(all, place{RemoteMW(w.mw), w.off, w.n, w.access})
		}
	}
	return all
}

// live skips an action once the connection has ended.
func (m *model) live(t *rapid.T) {
	if !m.up {
		t.Skip("connection ended")
	}
}

// span draws a part of a place.
func span(t *rapid.T, n int) (off, length int) {
	off = rapid.IntRange(0, n-1).Draw(t, "offset")
	return off, rapid.IntRange(1, n-off).Draw(t, "length")
}

func (m *model) write(t *rapid.T) {
	m.live(t)
	at := rapid.SampledFrom(m.places()).Draw(t, "place")
	off, n := span(t, at.n)
	m.seed++
	Fill(m.p.A.Bytes(0, n), m.seed)
	m.p.A.Post(Write(m.seed, at.At(off), m.p.A.SGE(0, n)))
	if at.access&verbs.AccessRemoteWrite == 0 {
		m.ended(t)
		return
	}
	m.p.A.Done(m.seed, verbs.WCRDMAWrite)
	copy(m.mem[at.off+off:], m.p.A.Bytes(0, n))
}

func (m *model) read(t *rapid.T) {
	m.live(t)
	at := rapid.SampledFrom(m.places()).Draw(t, "place")
	off, n := span(t, at.n)
	m.seed++
	m.p.A.Post(Read(m.seed, at.At(off), m.p.A.SGE(0, n)))
	if at.access&verbs.AccessRemoteRead == 0 {
		m.ended(t)
		return
	}
	m.p.A.Done(m.seed, verbs.WCRDMARead)
	sameBytes(t, "read", m.p.A.Bytes(0, n), m.mem[at.off+off:at.off+off+n])
}

func (m *model) send(t *rapid.T) {
	m.live(t)
	n := rapid.IntRange(0, modelSize).Draw(t, "length")
	m.transmit(t, n, func(id uint64) verbs.SendWR { return Send(id, m.p.A.SGE(0, n)) })
}

// transmit sends n bytes and checks what arrives.
func (m *model) transmit(t *rapid.T, n int, wr func(id uint64) verbs.SendWR) verbs.WC {
	m.seed++
	Fill(m.p.A.Bytes(0, n), m.seed)
	m.p.B.Receive(m.seed, 0, modelSize)
	m.p.A.Post(wr(m.seed))
	m.p.A.Done(m.seed, verbs.WCSend)
	wc := m.p.B.Got(m.seed, n)
	sameBytes(t, "sent", m.p.B.Bytes(0, n), m.p.A.Bytes(0, n))
	return wc
}

// window draws a window that is bound, or one that is not.
func (m *model) window(t *rapid.T, bound bool) *modelWindow {
	m.live(t)
	w := &m.windows[rapid.IntRange(0, len(m.windows)-1).Draw(t, "window")]
	if w.bound != bound {
		t.Skip("window in the wrong state")
	}
	return w
}

func (m *model) bind(t *rapid.T) {
	w := m.window(t, false)
	w.off, w.n = span(t, modelSize)
	w.access = rapid.SampledFrom([]verbs.Access{
		verbs.AccessRemoteRead, verbs.AccessRemoteWrite, verbs.AccessRemoteRead | verbs.AccessRemoteWrite,
	}).Draw(t, "access")
	m.p.B.bound(w.mw, m.mr, w.off, w.n, w.access)
	w.bound = true
}

// invalidate revokes a window once what was written through it has arrived.
func (m *model) invalidate(t *rapid.T) {
	w := m.window(t, true)
	m.p.A.tell(m.p.B)
	m.spent = append(m.spent, RemoteMW(w.mw))
	m.p.B.revoke(w.mw.RKey())
	w.bound = false
}

func (m *model) sendInvalidate(t *rapid.T) {
	w := m.window(t, true)
	key := w.mw.RKey()
	m.spent = append(m.spent, RemoteMW(w.mw))
	wc := m.transmit(t, 10, func(id uint64) verbs.SendWR { return SendInvalidate(id, key, m.p.A.SGE(0, 10)) })
	if !wc.WithInvalidate || wc.Invalidated != key {
		t.Fatalf("receive completed with %+v; key %#x was to be invalidated", wc, key)
	}
	w.bound = false
}

// stale accesses memory through a revoked window.
func (m *model) stale(t *rapid.T) {
	m.live(t)
	if len(m.spent) == 0 {
		t.Skip("nothing revoked")
	}
	m.offend(t, rapid.SampledFrom(m.spent).Draw(t, "revoked"), 1)
}

// outOfBounds accesses memory beyond an edge of a place.
func (m *model) outOfBounds(t *rapid.T) {
	m.live(t)
	at := rapid.SampledFrom(m.places()).Draw(t, "place")
	off := rapid.IntRange(-100, at.n+100).Draw(t, "offset")
	n := rapid.IntRange(1, modelSize).Draw(t, "length")
	if off >= 0 && off+n <= at.n {
		t.Skip("inside")
	}
	m.offend(t, at.At(off), n)
}

func (m *model) wrongKey(t *rapid.T) {
	m.live(t)
	at := RemoteMR(m.mr)
	at.RKey ^= rapid.Uint32Range(1, ^uint32(0)).Draw(t, "change")
	for _, p := range m.places() {
		if p.RKey == at.RKey {
			t.Skip("right after all")
		}
	}
	m.offend(t, at, 1)
}

// offend makes a forbidden read or write.
func (m *model) offend(t *rapid.T, at Remote, n int) {
	m.seed++
	wr := Write(m.seed, at, m.p.A.SGE(0, n))
	if rapid.Bool().Draw(t, "read") {
		wr = Read(m.seed, at, m.p.A.SGE(0, n))
	}
	m.p.A.Post(wr)
	m.ended(t)
}

// ended waits for the end of the connection.
func (m *model) ended(t *rapid.T) {
	m.up = false
	if wc := m.p.A.Sent(); wc.ID != m.seed || wc.Status == verbs.WCSuccess && wc.Op != verbs.WCRDMAWrite {
		t.Fatalf("completed with %+v", wc)
	}
	m.p.A.Ended()
	m.p.B.Ended()
}

// compare checks B's memory, once everything posted has arrived.
func (m *model) compare() {
	if m.up {
		m.p.A.tell(m.p.B)
	}
	sameBytes(m.p.A.t, fmt.Sprintf("memory after %d steps", m.seed), m.mr.Bytes(), m.mem)
}

package softiwarp

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// Keys and addresses of the fuzz target's regions, known to its seeds.
const (
	fuzzWritable, fuzzReadable, fuzzWindow = 0x11, 0x22, 0x33
	fuzzPrivate, fuzzBound                 = 0x14, 0x25 // not in the seeds
	fuzzBase                               = 1 << 47    // the address of regions for random bits that are 0
	fuzzSinkBase                           = 0x40
)

// target is a queue pair that receives from memory instead of a socket.
type target struct {
	q      *queuePair
	random []uint32 // the next random bits of the device
	all    []byte   // of which a peer may change only spans
	may    []bool
}

func (f *target) span(off, n int) []byte {
	for i := off; i < off+n; i++ {
		f.may[i] = true
	}
	return f.all[off : off+n]
}

// expose registers buf under a known key, at fuzzBase.
func (f *target) expose(t testing.TB, key uint32, buf []byte, access verbs.Access) verbs.MR {
	f.random = []uint32{0, 0, key}
	return must(f.q.pd.RegMR(buf, access))(t)
}

func newTarget(t testing.TB, crc bool) *target {
	p := must(New(Config{}))(t)
	pd := must(p.dev.AllocPD())(t).(*driver.SoftPD)
	cq := must(p.dev.CreateCQ(64))(t)
	q := must(newQP(newID(p, netip.AddrPort{}, netip.AddrPort{}), pd, verbs.QPAttr{SendCQ: cq, RecvCQ: cq, MaxSendWR: 8, MaxRecvWR: 8, MaxSendSGE: 2, MaxRecvSGE: 2}))(t)
	f := &target{q: q, all: bytes.Repeat([]byte{0xa5}, 8192), may: make([]bool, 8192)}
	q.sinkBase = fuzzSinkBase
	p.dev.Tags.Random = func() (n uint32) {
		n, f.random = f.random[0], f.random[1:]
		return n
	}
	q.inbound.init(2)
	q.crc, q.ord = crc, 2
	q.ReadyLocked()
	q.hold = true
	q.rx.begin(link{passive: true})

	f.expose(t, fuzzWritable, f.span(100, 500), allAccess)
	f.expose(t, fuzzReadable, f.all[1000:1500], verbs.AccessRemoteRead)
	private := f.expose(t, fuzzPrivate, f.all[2000:4000], verbs.AccessLocalWrite)
	f.span(2000+10, 64)
	f.span(2000+200, 300)
	f.span(2000+1000, 100)
	recv := []verbs.RecvWR{{SGL: []verbs.SGE{{MR: private, Offset: 10, Length: 64}, {MR: private, Offset: 200, Length: 300}}}, {}}
	reads := []verbs.SendWR{
		{Op: verbs.OpRDMARead, SGL: sge(private, 1000, 100)},
		{Op: verbs.OpRDMARead, SGL: sge(private, 1000, 0)},
	}
	must(q.PostRecv(recv))(t)
	must(q.PostSend(reads))(t)
	q.readsSent.Store(2)
	q.sq.tx, q.tx.pos = 2, 2
	f.bindWindow(t)
	return f
}

// bindWindow binds a window under a known key.
func (f *target) bindWindow(t testing.TB) {
	w := must(f.q.pd.AllocMW())(t)
	mr := f.expose(t, fuzzBound, f.span(5000, 100), allAccess)
	f.random = []uint32{fuzzWindow}
	var b driver.Binding
	err := b.Prepare(&f.q.QP, &verbs.BindInfo{MW: w, MR: mr, Length: 100, Access: verbs.AccessRemoteWrite})
	if err != nil || !b.Execute(&f.q.QP) {
		t.Fatal("not bound: ", err)
	}
}

func fuzzSegment(op rdmap.Opcode, h ddp.Header, payload ...byte) []byte {
	h.ULP = rdmap.Control(op)
	return append(h.Append(nil), payload...)
}

// FuzzReceive: no input changes anything outside the spans, and nothing panics. A refused
// stream has a reason.
func FuzzReceive(f *testing.F) {
	tagged := func(stag uint32, to uint64, last bool) ddp.Header {
		return ddp.Header{Tagged: true, Last: last, STag: stag, TO: to}
	}
	read := rdmap.Read{SinkSTag: 1, Size: 500, SrcSTag: fuzzReadable, SrcTO: fuzzBase}
	request := func(msn uint32) []byte {
		return fuzzSegment(rdmap.ReadRequest, ddp.Header{Last: true, QN: 1, MSN: msn}, read.Append(nil)...)
	}
	for _, seed := range [][][]byte{
		{fuzzSegment(rdmap.Write, tagged(fuzzWritable, fuzzBase+400, true), make([]byte, 100)...)},
		{fuzzSegment(rdmap.Write, tagged(fuzzWindow, fuzzBase, true), 1, 2, 3)},
		{request(1), request(2)},
		{fuzzSegment(rdmap.ReadResponse, tagged(fuzzSinkBase+1, 0, false), make([]byte, 60)...),
			fuzzSegment(rdmap.ReadResponse, tagged(fuzzSinkBase+1, 60, true), make([]byte, 40)...),
			fuzzSegment(rdmap.ReadResponse, tagged(fuzzSinkBase+2, 0, true))},
		{fuzzSegment(rdmap.Send, ddp.Header{MSN: 1}, make([]byte, 50)...),
			fuzzSegment(rdmap.Send, ddp.Header{Last: true, MSN: 1, MO: 50}, make([]byte, 300)...)},
		{fuzzSegment(rdmap.SendInvalidate, ddp.Header{Last: true, MSN: 1, ULP2: fuzzWindow}),
			fuzzSegment(rdmap.SendSolicited, ddp.Header{Last: true, MSN: 2})},
		{fuzzSegment(rdmap.Terminate, ddp.Header{Last: true, QN: 2, MSN: 1}, 1, 2, 0, 0)},
	} {
		for _, crc := range []bool{false, true} {
			var stream []byte
			for _, ulpdu := range seed {
				stream = mpa.AppendFPDU(stream, ulpdu, crc)
			}
			f.Add(stream, crc)
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, crc bool) {
		if len(stream) > bufferSize {
			return
		}
		target := newTarget(t, crc)
		r := &target.q.rx
		r.buf = target.q.dev.buffers.get(bufferSize)
		r.to = copy(r.buf.mem, stream)
		if !r.consume() && r.end.cause == nil {
			t.Error("refused without a reason")
		}
		if r.from > r.to {
			t.Errorf("consumed %d of %d bytes", r.from, r.to)
		}
		r.release()
		for i, b := range target.all {
			if b != 0xa5 && !target.may[i] {
				t.Fatalf("byte %d was changed", i)
			}
		}
		if in := &target.q.inbound; in.tail-in.head.Load() > in.ird {
			t.Errorf("%d Reads queued", in.tail)
		}
	})
}

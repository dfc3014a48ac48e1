package referee

import (
	"math/rand/v2"
	"testing"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/goxdrtest"
)

// FuzzVersion2 plays random conversations of nearly correct messages, with
// gaps. The Referee must not panic, and its state must stay within its bounds.
func FuzzVersion2(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add(uint64(2), []byte{16, 17, 32, 33, 64, 65, 128, 129, 255, 254, 253, 200, 100, 50, 25, 12})
	f.Add(uint64(3), []byte("INIT, XMTREQ, XMTCONT, XMTRESP, XMTERR, REQUEST, RESPOND, UPDATE"))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		b := newBed(t, Vantage(seed%3))
		rnd := rand.New(rand.NewPCG(seed, 0))
		if seed%5 != 0 {
			b.r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
		}
		for _, op := range script {
			b.stir(rnd, op)
			b.within()
		}
	})
}

// stir makes one random event.
func (b *bed) stir(rnd *rand.Rand, op byte) {
	from, xid := Side(op&1), rnd.IntN(4)
	fill := func(v xdr.XdrType) xdr.XdrType {
		goxdrtest.Fill(rnd, v)
		return v
	}
	payload := make([]byte, rnd.IntN(3)*40)
	var data []byte
	switch op >> 1 % 20 {
	case 0:
		data = call2Of(xid, 32)
	case 1:
		data = reply2Of(xid, 32)
	case 2:
		data = op2(xid, 32, rnd.IntN(2), fill(new(goxdr.Optinit_xch)))
	case 3:
		data = op2(xid, 32, rnd.IntN(2), fill(new(goxdr.Optreq_xch)))
	case 4:
		data = op2(xid, 32, rnd.IntN(2), fill(new(goxdr.Optresp_xch)))
	case 5:
		data = op2(xid, 32, rnd.IntN(2), updateOf(char(rnd.IntN(8), rnd.IntN(1<<14))))
	case 6:
		data = op2(xid, 32, rnd.IntN(2), updateOf(structure(rnd.IntN(3))))
	case 7:
		data = op2(xid, 32, callDir, fill(new(goxdr.Optxmt_req)), payload)
	case 8:
		data = request2{count: 1 + rnd.IntN(3), rsbuf: rnd.IntN(3), directions: []goxdr.Xmddp_rsdset{
			over(0, rnd.IntN(40), direct(goxdr.Xmddp_type(1+rnd.IntN(4)), 0, rnd.IntN(9), seg{8, 64, 0}))}}.bytes(xid)
	case 9:
		data = placed2(xid, 1+rnd.IntN(2), 9216, tbsn(rnd.IntN(12)*4, rnd.IntN(9000), 0, uint32(rnd.IntN(5)), uint32(rnd.IntN(5))))
	case 10:
		data = op2(xid, 32, replyDir, fill(new(goxdr.Optxmt_resp)), payload)
	case 11:
		data = response2{1 + rnd.IntN(3), []goxdr.Xmddp_mitem{exrw(24, rnd.IntN(64), seg{8, 64, 0})}}.bytes(xid)
	case 12, 13:
		data = cont(xid, rnd.IntN(2), rnd.IntN(3), opXmtReq+rnd.IntN(2), len(payload), payload)
	case 14:
		data = op2(xid, 32, rnd.IntN(2), fill(new(goxdr.Optxmt_err)))
	case 15:
		data = error2(xid, 32, 1+rnd.IntN(3), rnd.IntN(3), rnd.IntN(3))
	case 16:
		data = goxdrtest.Encode(fill(new(goxdr.Rpcrdma2_xprt_hdr)))
		copy(data[4:], words(2))
	case 17:
		b.write(from, 8, uint64(rnd.IntN(64)), payload)
		return
	case 18:
		data = append(call2Of(xid, 32)[:rnd.IntN(72)], payload...)
	default:
		if rnd.IntN(8) == 0 {
			b.r.Gap()
		}
		return
	}
	e := Event{Kind: Send, From: from, Data: data, Length: len(data) + rnd.IntN(2)*rnd.IntN(64)}
	if rnd.IntN(4) == 0 {
		e.Kind, e.STag = SendInvalidate, 8
	}
	b.event(e)
}

// within checks that the kept state is within its bounds.
func (b *bed) within() {
	v := &b.r.v2
	open := 0
	for _, d := range b.r.dirs {
		for _, c := range d.calls {
			open += len(c.v2.directions)
		}
	}
	if v.directions != open || v.requests < 0 || v.requests > maxRequests {
		b.t.Fatalf("%d directions are counted, %d are kept; %d REQUESTs", v.directions, open, v.requests)
	}
	for i := range v.sides {
		s := &v.sides[i]
		if len(s.traits.said) == 0 || len(s.traits.said) > maxHistory || len(s.recent.list) > maxRecent {
			b.t.Fatalf("%d sets of characteristics, %d messages", len(s.traits.said), len(s.recent.list))
		}
		if g := s.group; g != nil && (len(g.stream) > maxPrefix || len(g.sent) > maxTransmissions || uint32(len(g.sent)) >= g.count) {
			b.t.Fatalf("%d bytes of %d transmissions", len(g.stream), len(g.sent))
		}
	}
}

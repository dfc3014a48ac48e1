package softiwarp

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestRegionBusy: a region can't be closed under posted requests and can
// once they have completed.
func TestRegionBusy(t *testing.T) {
	a, b := connectPair(t, Config{}, Config{})
	mr := must(b.pd.RegMR(make([]byte, 64), allAccess))(t)
	b.recv(verbs.RecvWR{SGL: []verbs.SGE{{MR: mr, Length: 8}, {MR: mr, Offset: 8, Length: 8}}})
	if err := mr.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close under a Receive: %v", err)
	}
	a.send(verbs.SendWR{})
	b.succeed(1)
	if err := mr.Close(); err != nil {
		t.Errorf("close afterwards: %v", err)
	}
	if n, err := b.qp.PostRecv([]verbs.RecvWR{{}, {SGL: sge(mr, 0, 8)}}); n != 1 || !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("post of a closed region: took %d, %v", n, err)
	}
}

// TestRefusedPostCountsNothing: a request refused at its second entry leaves
// the region of the first free.
func TestRefusedPostCountsNothing(t *testing.T) {
	a, _ := connectPair(t, Config{}, Config{})
	mr := must(a.pd.RegMR(make([]byte, 64), allAccess))(t)
	for _, wr := range []verbs.SendWR{
		{SGL: []verbs.SGE{{MR: mr, Length: 8}, {MR: mr, Length: 65}}},
		{SGL: sge(mr, 0, 8), Flags: 1 << 7},
		{Op: verbs.OpRDMARead},
		{Op: verbs.OpRDMARead, SGL: []verbs.SGE{{MR: mr}, {MR: mr}}},
		{Op: verbs.OpBindMW, Bind: verbs.BindInfo{MR: mr, Length: 1, Access: verbs.AccessRemoteRead}},
	} {
		if _, err := a.qp.PostSend([]verbs.SendWR{wr}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", wr, err)
		}
	}
	if err := mr.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestMessageTooLong: more bytes in all than a message can have, from a
// region that is much smaller.
func TestMessageTooLong(t *testing.T) {
	p := newProvider(t, Config{})
	s := newSide(t, p, must(p.Resolve(t.Context(), "127.0.0.1:1"))(t), verbs.QPAttr{MaxSendWR: 1, MaxRecvWR: 1, MaxRecvSGE: maxSGE})
	mr := s.region(make([]byte, maxMsgSize/16), verbs.AccessLocalWrite)
	wr := verbs.RecvWR{}
	for range 17 {
		wr.SGL = append(wr.SGL, verbs.SGE{MR: mr, Length: maxMsgSize / 16})
	}
	if _, err := s.qp.PostRecv([]verbs.RecvWR{wr}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("17/16 of the longest message: %v", err)
	}
	wr.SGL = wr.SGL[:16]
	s.recv(wr)
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{
		{MPARevision: 3}, {MaxULPDU: 81}, {MaxULPDU: 65536}, {HandshakeTimeout: -1},
		{DrainTimeout: -1}, {MaxHandshakes: -1}, {Backlog: -1},
	} {
		if _, err := New(c); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

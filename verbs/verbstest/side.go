package verbstest

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Side is one end of a connection with its objects. Call methods that fail the test only in
// the test's goroutine.
type Side struct {
	t              TB
	ID             rdmacm.ID
	PD             verbs.PD
	SendCQ, RecvCQ verbs.CQ
	QP             verbs.QP
	MR             verbs.MR

	extra        []func() error // closes objects made later, last first
	ownPD, ownCQ bool
	closed       bool
}

// NewSide makes the region and queue pair for an identifier, in pd and with cq for all
// completions. If these are nil, the side makes its own PD and CQs. After an error the
// caller still owns the identifier.
func NewSide(t TB, id rdmacm.ID, o Options, pd verbs.PD, cq verbs.CQ) (_ *Side, err error) {
	o = o.withDefaults()
	s := &Side{t: t, ID: id, PD: pd, SendCQ: cq, RecvCQ: cq, ownPD: pd == nil, ownCQ: cq == nil}
	defer func() {
		if err != nil {
			s.ID = nil
			err = errors.Join(err, s.shut())
		}
	}()
	if s.ownPD {
		if s.PD, err = id.Device().AllocPD(); err != nil {
			return nil, err
		}
	}
	if s.ownCQ {
		if err = s.makeCQs(o); err != nil {
			return nil, err
		}
	}
	if s.MR, err = s.PD.RegMR(make([]byte, o.Buffer), o.Access); err != nil {
		return nil, err
	}
	s.QP, err = id.CreateQP(s.PD, verbs.QPAttr{
		SendCQ: s.SendCQ, RecvCQ: s.RecvCQ, SigAll: o.SigAll,
		MaxSendWR: o.SendWR, MaxRecvWR: o.RecvWR, MaxSendSGE: o.SGE, MaxRecvSGE: o.SGE,
	})
	return s, err
}

func (s *Side) makeCQs(o Options) (err error) {
	if s.SendCQ, err = s.ID.Device().CreateCQ(o.CQDepth); err != nil {
		return err
	}
	s.RecvCQ = s.SendCQ
	if !o.OneCQ {
		s.RecvCQ, err = s.ID.Device().CreateCQ(o.CQDepth)
	}
	return err
}

// Close closes the connection and its objects.
func (s *Side) Close() {
	s.t.Helper()
	if err := s.shut(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// shut closes the existing objects, in the order of package verbs.
func (s *Side) shut() error {
	if s == nil || s.closed {
		return nil
	}
	s.closed = true
	var errs []error
	note := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	if s.ID != nil {
		note("ID", s.ID.Close())
	}
	for i := len(s.extra) - 1; i >= 0; i-- {
		note("added object", s.extra[i]())
	}
	if s.MR != nil {
		note("MR", s.MR.Close())
	}
	if s.ownCQ && s.RecvCQ != nil && s.RecvCQ != s.SendCQ {
		note("receive CQ", s.RecvCQ.Close())
	}
	if s.ownCQ && s.SendCQ != nil {
		note("send CQ", s.SendCQ.Close())
	}
	if s.ownPD && s.PD != nil {
		note("PD", s.PD.Close())
	}
	return errors.Join(errs...)
}

// Register registers a buffer in the side's PD, until the side is closed.
func (s *Side) Register(buf []byte, access verbs.Access) verbs.MR {
	s.t.Helper()
	mr, err := s.PD.RegMR(buf, access)
	Must(s.t, err)
	s.extra = append(s.extra, mr.Close)
	return mr
}

// Window allocates a window in the side's PD, until the side is closed.
func (s *Side) Window() verbs.MW {
	s.t.Helper()
	mw, err := s.PD.AllocMW()
	Must(s.t, err)
	s.extra = append(s.extra, mw.Close)
	return mw
}

// SGE returns an entry for n bytes of the side's region.
func (s *Side) SGE(off, n int) verbs.SGE { return verbs.SGE{MR: s.MR, Offset: off, Length: n} }

// Bytes returns n bytes of the side's buffer.
func (s *Side) Bytes(off, n int) []byte { return s.MR.Bytes()[off : off+n : off+n] }

// Post posts send-queue requests. All must be accepted.
func (s *Side) Post(wrs ...verbs.SendWR) {
	s.t.Helper()
	if n, err := s.QP.PostSend(wrs); err != nil || n != len(wrs) {
		s.t.Fatalf("post of %d sends: took %d, %v", len(wrs), n, err)
	}
}

// Receive posts a Receive into n bytes of the side's region.
func (s *Side) Receive(id uint64, off, n int) {
	s.t.Helper()
	s.PostRecv(verbs.RecvWR{ID: id, SGL: []verbs.SGE{s.SGE(off, n)}})
}

// PostRecv posts Receives. All must be accepted.
func (s *Side) PostRecv(wrs ...verbs.RecvWR) {
	s.t.Helper()
	if n, err := s.QP.PostRecv(wrs); err != nil || n != len(wrs) {
		s.t.Fatalf("post of %d receives: took %d, %v", len(wrs), n, err)
	}
}

// Next waits for a completion and polls it.
func Next(ctx context.Context, cq verbs.CQ) (verbs.WC, error) {
	var wc [1]verbs.WC
	for cq.Poll(wc[:]) == 0 {
		if err := cq.Wait(ctx); err != nil {
			return verbs.WC{}, err
		}
	}
	return wc[0], nil
}

func (s *Side) next(what string, cq verbs.CQ) verbs.WC {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), Patience)
	defer cancel()
	wc, err := Next(ctx, cq)
	if err != nil {
		s.t.Fatalf("waiting for a %s completion: %v (queue pair: %v)", what, err, s.QP.Err())
	}
	if wc.QPNum != s.QP.Num() {
		s.t.Fatalf("completion of queue pair %d, not %d: %+v", wc.QPNum, s.QP.Num(), wc)
	}
	return wc
}

// Sent waits for the next completion of the send CQ and polls it.
func (s *Side) Sent() verbs.WC {
	s.t.Helper()
	return s.next("send", s.SendCQ)
}

// Received waits for the next completion of the receive CQ and polls it.
func (s *Side) Received() verbs.WC {
	s.t.Helper()
	return s.next("receive", s.RecvCQ)
}

// Done polls the next send completion, which must be the success of id.
func (s *Side) Done(id uint64, op verbs.WCOpcode) verbs.WC {
	s.t.Helper()
	return s.success(s.Sent(), id, op)
}

// Got polls the next receive completion, which must be the success of id with n bytes.
func (s *Side) Got(id uint64, n int) verbs.WC {
	s.t.Helper()
	wc := s.success(s.Received(), id, verbs.WCRecv)
	if wc.ByteLen != n {
		s.t.Fatalf("receive %d: %d bytes, not %d", id, wc.ByteLen, n)
	}
	return wc
}

func (s *Side) success(wc verbs.WC, id uint64, op verbs.WCOpcode) verbs.WC {
	s.t.Helper()
	if wc.Status != verbs.WCSuccess || wc.ID != id || wc.Op != op {
		s.t.Fatalf("completion %+v (%v), not the success of %d, operation %d (queue pair: %v)",
			wc, wc.Status, id, op, s.QP.Err())
	}
	return wc
}

// Ended waits until the connection has ended and returns why. It checks the queue pair's
// state.
func (s *Side) Ended() error {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), Patience)
	defer cancel()
	select {
	case <-s.ID.Disconnected():
	case <-ctx.Done():
		s.t.Fatalf("connection still up: state %d", s.QP.State())
	}
	if st := s.QP.State(); st != verbs.QPErr {
		s.t.Fatalf("connection ended in state %d, not in the error state", st)
	}
	err := s.QP.Err()
	if err == nil {
		s.t.Fatalf("connection ended without a reason")
	}
	return err
}

// Must ends the test if there is an error.
func Must(t TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatalf("%v", err)
	}
}

// Should fails the test if there is an error. It may be called from any goroutine.
func Should(t TB, err error) {
	if err != nil {
		t.Helper()
		t.Errorf("%v", err)
	}
}

package loopback

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// What was closed answers ErrClosed, and may be closed again.
func TestClosedObjects(t *testing.T) {
	p := New(Config{})
	dev := p.Device()
	pair := verbstest.NewPair(t, p, p, verbstest.Options{})
	id, err := p.Resolve(t.Context(), "127.0.0.1:1")
	must(t, err)
	pd, err := dev.AllocPD()
	must(t, err)
	mw, err := pd.AllocMW()
	must(t, err)
	cq, err := dev.CreateCQ(1)
	must(t, err)
	pair.Close()
	for _, c := range []interface{ Close() error }{id, mw, pd, cq, pair.A.ID, pair.A.QP, pair.A.MR, dev, p} {
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Errorf("close of a %T: %v", c, err)
		}
	}
	attr := verbs.QPAttr{SendCQ: cq, RecvCQ: cq}
	for what, f := range map[string]func() error{
		"RegMR":    func() error { _, err := pd.RegMR(nil, 0); return err },
		"AllocMW":  func() error { _, err := pd.AllocMW(); return err },
		"AllocPD":  func() error { _, err := dev.AllocPD(); return err },
		"CreateCQ": func() error { _, err := dev.CreateCQ(1); return err },
		"CreateQP": func() error { _, err := id.CreateQP(pd, attr); return err },
		"Connect":  func() error { return id.Connect(t.Context(), rdmacm.ConnParam{}) },
		"Accept":   func() error { return pair.B.ID.Accept(t.Context(), rdmacm.ConnParam{}) },
		"Reject":   func() error { return pair.B.ID.Reject(t.Context(), nil) },
		"PostSend": func() error { _, err := pair.A.QP.PostSend(make([]verbs.SendWR, 1)); return err },
		"PostRecv": func() error { _, err := pair.A.QP.PostRecv(make([]verbs.RecvWR, 1)); return err },
		"Wait":     func() error { return cq.Wait(t.Context()) },
	} {
		if err := f(); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Objects of another device and limits beyond the device's are refused.
func TestCreateQPChecks(t *testing.T) {
	p, other := New(Config{}), New(Config{})
	mine, err := objects(p)
	must(t, err)
	foreign, err := objects(other)
	must(t, err)
	id, err := p.Resolve(t.Context(), "127.0.0.1:1")
	must(t, err)
	good := verbs.QPAttr{SendCQ: mine.cq, RecvCQ: mine.cq, MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	for what, f := range map[string]func(a *verbs.QPAttr, pd *verbs.PD){
		"PD of another device":         func(_ *verbs.QPAttr, pd *verbs.PD) { *pd = foreign.pd },
		"no PD":                        func(_ *verbs.QPAttr, pd *verbs.PD) { *pd = nil },
		"send CQ of another device":    func(a *verbs.QPAttr, _ *verbs.PD) { a.SendCQ = foreign.cq },
		"receive CQ of another device": func(a *verbs.QPAttr, _ *verbs.PD) { a.RecvCQ = foreign.cq },
		"no CQ":                        func(a *verbs.QPAttr, _ *verbs.PD) { a.RecvCQ = nil },
		"too many sends":               func(a *verbs.QPAttr, _ *verbs.PD) { a.MaxSendWR = maxQPWR + 1 },
		"negative receives":            func(a *verbs.QPAttr, _ *verbs.PD) { a.MaxRecvWR = -1 },
		"too many entries":             func(a *verbs.QPAttr, _ *verbs.PD) { a.MaxSendSGE = maxSGE + 1 },
		"negative entries":             func(a *verbs.QPAttr, _ *verbs.PD) { a.MaxRecvSGE = -1 },
	} {
		attr, pd := good, mine.pd
		f(&attr, &pd)
		if _, err := id.CreateQP(pd, attr); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := id.Connect(t.Context(), rdmacm.ConnParam{}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("connect without a queue pair: %v", err)
	}
	if err := id.Disconnect(); !errors.Is(err, verbs.ErrQPState) {
		t.Errorf("disconnect before the connection: %v", err)
	}
	if _, err := id.CreateQP(mine.pd, good); err != nil {
		t.Error(err)
	}
	if err := p.Device().Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("close of a device in use: %v", err)
	}
	err = errors.Join(id.Close(), mine.close(), foreign.close(), p.Close(), other.Close())
	should(t, err)
}

type someObjects struct {
	pd verbs.PD
	cq verbs.CQ
}

func objects(p *Provider) (o someObjects, err error) {
	if o.pd, err = p.Device().AllocPD(); err != nil {
		return o, err
	}
	o.cq, err = p.Device().CreateCQ(8)
	return o, err
}

func (o someObjects) close() error { return errors.Join(o.pd.Close(), o.cq.Close()) }

// Close ends a Connect in progress. The listener does not return its request any more.
func TestCloseEndsConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		l, err := p.Listen(t.Context(), "127.0.0.1:0")
		must(t, err)
		id, err := p.Resolve(t.Context(), l.Addr().String())
		must(t, err)
		s, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
		must(t, err)
		done := make(chan error, 1)
		go func() { done <- id.Connect(t.Context(), rdmacm.ConnParam{}) }()
		synctest.Wait()
		s.Close()
		if err := <-done; !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("connect: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		if _, err := l.GetRequest(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get request: %v", err)
		}
		should(t, errors.Join(l.Close(), p.Close()))
	})
}

package verbstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Many connections are up at the same time. Each moves data, and all are closed.
func testManyConnections(e *env) {
	ctx := e.patience()
	m := &many{env: e, ctx: ctx, pairs: make([]Pair, e.target.Connections)}
	e.Cleanup(m.close)
	Must(e, m.connect())
	Must(e, m.each(func(p *Pair, i int) error {
		return errors.Join(trade(ctx, p.A, p.B, i), trade(ctx, p.B, p.A, i+1))
	}))
}

// workers is how many connections are used at the same time.
const workers = 16

type many struct {
	*env
	ctx   context.Context
	pairs []Pair
}

// each calls f for every pair, from several goroutines.
func (m *many) each(f func(p *Pair, i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(m.pairs) && errs[w] == nil; i += workers {
				if err := f(&m.pairs[i], i); err != nil {
					errs[w] = fmt.Errorf("connection %d: %w", i, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m *many) connect() error {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	o := Options{Buffer: 4096, SendWR: 4, RecvWR: 4, SGE: 1, CQDepth: 8, Reads: 1}
	accepted := make(chan error, 1)
	go func() { accepted <- m.accept(ctx, o) }()
	address := m.ln.Addr().String()
	err := m.each(func(p *Pair, i int) (err error) {
		o := o
		o.ActiveData = binary.BigEndian.AppendUint32(nil, uint32(i))
		p.A, err = Dial(ctx, m.T, m.active, address, o)
		return err
	})
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-accepted)
}

// accept makes the passive sides; the private data says of which pair.
func (m *many) accept(ctx context.Context, o Options) error {
	for range m.pairs {
		s, err := Accept(ctx, m.T, m.ln, o)
		if err != nil {
			return err
		}
		d := s.ID.Peer().PrivateData
		i := len(m.pairs)
		if len(d) >= 4 {
			i = int(binary.BigEndian.Uint32(d))
		}
		if i >= len(m.pairs) || m.pairs[i].B != nil {
			return errors.Join(fmt.Errorf("private data % x", d), s.shut())
		}
		m.pairs[i].B = s
	}
	return nil
}

func (m *many) close() {
	Must(m, m.each(func(p *Pair, _ int) error { return errors.Join(p.A.shut(), p.B.shut()) }))
}

// trade moves data from one side to the other with a Write and a Send.
func trade(ctx context.Context, from, to *Side, seed int) error {
	const n = 1000
	want := filled(n, uint64(seed))
	copy(from.Bytes(0, n), want)
	if _, err := to.QP.PostRecv([]verbs.RecvWR{{ID: 9, SGL: []verbs.SGE{to.SGE(1000, n)}}}); err != nil {
		return err
	}
	wrs := []verbs.SendWR{Unsignaled(Write(0, to.Remote(2000), from.SGE(0, n))), Send(8, from.SGE(0, n))}
	if _, err := from.QP.PostSend(wrs); err != nil {
		return err
	}
	got, err := Next(ctx, to.RecvCQ)
	if err != nil {
		return err
	}
	done, err := Next(ctx, from.SendCQ)
	if err != nil {
		return err
	}
	switch {
	case got.Status != verbs.WCSuccess || got.ID != 9 || got.ByteLen != n:
		return fmt.Errorf("receive: %+v", got)
	case done.Status != verbs.WCSuccess || done.ID != 8:
		return fmt.Errorf("send: %+v", done)
	case string(to.Bytes(1000, n)) != string(want) || string(to.Bytes(2000, n)) != string(want):
		return errors.New("other data than was sent")
	}
	return nil
}

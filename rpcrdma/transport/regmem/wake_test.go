package regmem

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// heldPD can stop each registration of memory, and each end of one, until the test lets it
// go on. The test says whether the registration then fails.
type heldPD struct {
	verbs.PD
	waits atomic.Bool
	gate  chan error
}

func (p *heldPD) wait() error {
	if p.waits.Load() {
		return <-p.gate
	}
	return nil
}

func (p *heldPD) RegMR(mem []byte, access verbs.Access) (verbs.MR, error) {
	if err := p.wait(); err != nil {
		return nil, err
	}
	mr, err := p.PD.RegMR(mem, access)
	return heldMR{mr, p}, err
}

type heldMR struct {
	verbs.MR
	p *heldPD
}

func (m heldMR) Close() error {
	if err := m.p.wait(); err != nil {
		return err
	}
	return m.MR.Close()
}

// TestWaitsForRegistration: a request that comes while another one registers the last memory,
// or while unused memory is unregistered, gets what there is afterwards.
func TestWaitsForRegistration(t *testing.T) {
	failed := errors.New("failed")
	for name, tc := range map[string]struct {
		unused bool // there is an unused slab
		first  func(*Pool) *Buffer
		err    error
	}{
		"registered":             {first: func(p *Pool) *Buffer { return p.TryAlloc(1024, Receive) }},
		"not registered":         {first: func(p *Pool) *Buffer { return p.TryAlloc(1024, Receive) }, err: failed},
		"unregistered":           {unused: true, first: func(p *Pool) *Buffer { p.Trim(); return nil }},
		"unregistered in vain":   {unused: true, first: func(p *Pool) *Buffer { return p.TryAlloc(MaxBuffer, Service) }},
		"unregistered for a few": {unused: true, first: func(p *Pool) *Buffer { return p.TryAlloc(1024, Receive) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner, err := loopback.New(loopback.Config{}).Device().AllocPD()
				must(t, err)
				pd := &heldPD{PD: inner, gate: make(chan error)}
				pool := New(pd, verbs.AccessLocalWrite, MinLimit)
				held := takeAll(pool, MaxBuffer, Service)
				held[0].Release()
				held = append(held[1:], takeAll(pool, slabBytes, Service)...)
				held[len(held)-1].Release() // the only room
				held = held[:len(held)-1]
				if pool.Trim(); !tc.unused {
					pool.Trim()
				}
				pd.waits.Store(true)
				first, second := make(chan *Buffer, 1), make(chan *Buffer, 1)
				go func() { first <- tc.first(pool) }()
				synctest.Wait()
				go func() {
					b, err := pool.Alloc(t.Context(), 1024, Service)
					if err != nil {
						t.Error(err)
					}
					second <- b
				}()
				synctest.Wait()
				pd.waits.Store(false)
				pd.gate <- tc.err
				b := <-first
				synctest.Wait()
				select {
				case other := <-second:
					other.Release()
				default:
					t.Errorf("still waits: %+v", pool.Stats())
					defer func() { (<-second).Release() }()
				}
				if b != nil {
					held = append(held, b)
				}
				for _, b := range held {
					b.Release()
				}
				synctest.Wait()
				if err := pool.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

package rpcrdma_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// watchedProvider counts the regions that peers reach by a key of their own, and
// calls who wants to know of them.
type watchedProvider struct {
	*wrappedProvider
	dev *watchedDevice
}

func watching(p rdmacm.Provider) *watchedProvider {
	dev := &watchedDevice{Device: p.Device()}
	return &watchedProvider{&wrappedProvider{p, func(id rdmacm.ID, _ bool) rdmacm.ID { return watchedID{id, dev} }}, dev}
}

type watchedDevice struct {
	verbs.Device
	open atomic.Int64
	// Each may be nil. opening is called when a region for peers is made, closing when it is
	// closed; their errors make these fail. reading is called before an RDMA Read begins.
	opening func() error
	closing func() error
	reading func(sink verbs.SGE)
	stuck   []verbs.MR // that closing kept open, in order
}

type watchedPD struct {
	verbs.PD
	dev *watchedDevice
}

type watchedID struct {
	rdmacm.ID
	dev *watchedDevice
}

func (i watchedID) Device() verbs.Device { return i.dev }

func (i watchedID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	qp, err := i.ID.CreateQP(pd.(watchedPD).PD, attr)
	if err != nil || i.dev.reading == nil {
		return qp, err
	}
	return watchedQP{qp, i.dev}, nil
}

type watchedQP struct {
	verbs.QP
	dev *watchedDevice
}

func (q watchedQP) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		if wrs[i].Op == verbs.OpRDMARead {
			q.dev.reading(wrs[i].SGL[0])
		}
	}
	return q.QP.PostSend(wrs)
}

func (d *watchedDevice) AllocPD() (verbs.PD, error) {
	pd, err := d.Device.AllocPD()
	return watchedPD{pd, d}, err
}

func (pd watchedPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	remote := access&(verbs.AccessRemoteRead|verbs.AccessRemoteWrite) != 0
	if remote {
		if pd.dev.opening != nil {
			if err := pd.dev.opening(); err != nil {
				return nil, err
			}
		}
		pd.dev.open.Add(1)
	}
	mr, err := pd.PD.RegMR(buf, access)
	if remote && err == nil && pd.dev.closing != nil {
		mr = watchedMR{mr, pd.dev}
	}
	return mr, err
}

type watchedMR struct {
	verbs.MR
	dev *watchedDevice
}

func (mr watchedMR) Close() error {
	if err := mr.dev.closing(); err != nil {
		mr.dev.stuck = append(mr.dev.stuck, mr.MR)
		return err
	}
	return mr.MR.Close()
}

// The memory that all connections share is open to no peer, however well it
// guesses keys (RFC 5042 §5.3): a call's is, through windows, or where there are none
// through registrations of that call's.
func TestPeersRights(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		w := watching(p)
		dev := w.dev
		b := newBed(t, w, bedConfig{settings: readReplies})
		c, s := b.dial(readReplies)
		for _, err := range []error{
			readBack(b.ctx, c, procRead, 100000, 100000, 1), writeOut(b.ctx, c, 100000, 2), longEcho(b.ctx, c, 300000, 3),
		} {
			should(t, err)
		}
		exposed := c.Stats().Registrations + s.Stats().Registrations
		if exposed == 0 {
			t.Fatal("nothing was exposed")
		}
		if dev.Attr().MemWindowType2B {
			exposed = 0
		}
		if got := uint64(dev.open.Load()); got != exposed {
			t.Errorf("%d regions are open to peers, want %d", got, exposed)
		}
	})
}

// TestMemoryThatStaysOpen: a call whose memory can't be closed to the peer ends only with the
// connection, which is the other way to close it.
func TestMemoryThatStaysOpen(t *testing.T) {
	w := watching(loopback.New(loopback.Config{NoWindows: true}))
	stuck := errors.New("stuck")
	var refused atomic.Bool
	w.dev.closing = func() error {
		if refused.CompareAndSwap(false, true) {
			return stuck
		}
		return nil
	}
	b := newBed(t, w, bedConfig{})
	c, _ := b.dial(nil)
	err := readBack(b.ctx, c, procRead, 100000, 100000, 1)
	if !refused.Load() || !errors.Is(c.Err(), stuck) {
		t.Errorf("the call: %v, the connection: %v", err, c.Err())
	}
}

// TestMemoryThatStaysOpenAtTheEnd: memory of a call that can't be closed to the peer when the
// connection ends is logged.
func TestMemoryThatStaysOpenAtTheEnd(t *testing.T) {
	w := watching(loopback.New(loopback.Config{NoWindows: true}))
	stuck := errors.New("stuck")
	w.dev.closing = func() error { return stuck }
	h := newBlocking()
	b := newBed(t, w, bedConfig{handler: h})
	var log strings.Builder
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	failed := begin(func() error { return readBack(b.ctx, c, procRead, 100000, 100000, 1) })
	<-h.entered
	should(t, (<-b.conns).Close())
	if err := <-failed; err == nil {
		t.Error("the call got a reply")
	}
	<-c.Done()
	if len(w.dev.stuck) == 0 || !strings.Contains(log.String(), stuck.Error()) {
		t.Errorf("%d regions stay open, logged: %q", len(w.dev.stuck), log.String())
	}
	for _, mr := range w.dev.stuck {
		should(t, mr.Close())
	}
	should(t, c.Close())
}

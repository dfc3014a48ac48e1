package main

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

func receiveSize(n uint32) *rdmadv1.Settings {
	return &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{ReceiveSize: &n}}
}

// change changes settings for all connections, with a confirm window if within is not 0.
func (o *operator) change(s *rdmadv1.Settings, within time.Duration) *rdmadv1.SetSettingsResponse {
	o.t.Helper()
	req := &rdmadv1.SetSettingsRequest{Settings: s}
	if within != 0 {
		req.ConfirmWithin = durationpb.New(within)
	}
	return have(o.settings.SetSettings(o.t.Context(), req))(o.t)
}

// inForce returns the global inline.receive_size.
func (o *operator) inForce() uint32 {
	o.t.Helper()
	res := have(o.settings.GetSettings(o.t.Context(), &rdmadv1.GetSettingsRequest{}))(o.t)
	return res.GetSettings().GetInline().GetReceiveSize()
}

// newest returns the last revision.
func (o *operator) newest() *rdmadv1.Revision {
	o.t.Helper()
	res, err := o.settings.ListRevisions(o.t.Context(), &rdmadv1.ListRevisionsRequest{PageSize: 1})
	if err != nil || len(res.GetRevisions()) != 1 {
		o.t.Fatalf("%v, %v", res, err)
	}
	return res.GetRevisions()[0]
}

// firstIn tries to connect until it is accepted. It returns the receive size that the server
// announced.
func (r *rig) firstIn(address string) <-chan uint32 {
	told := make(chan uint32, 1)
	s := rpcrdma.DefaultSettings()
	s.InlineSendMax = 65536
	go func() {
		defer close(told)
		for r.t.Context().Err() == nil {
			c, err := rpcrdma.Dial(r.t.Context(), r.provider, address, rpcrdma.DialConfig{Settings: &s, MemoryLimit: 4 << 20})
			if err != nil {
				continue
			}
			told <- c.Info().InlineSend
			c.Close()
			return
		}
	}()
	return told
}

// Stored settings apply before the first client is accepted, however rdmad ended.
func TestStoredSettingsMeetTheFirstClient(t *testing.T) {
	r := newRig(t)
	p := r.start()
	r.configure(p.addresses["nfs"])
	for _, step := range []struct {
		size   uint32
		signal string
		code   int
	}{{8192, "KILL", -1}, {2048, "TERM", 0}, {16384, "KILL", -1}} {
		r.operator(p).change(receiveSize(step.size), 0)
		p.end(t, step.signal, step.code)
		told := r.firstIn(p.addresses["nfs"])
		p = r.start()
		if got := <-told; got != step.size {
			t.Errorf("the first client was told of receives of %d bytes, want %d", got, step.size)
		}
		if got := r.operator(p).inForce(); got != step.size {
			t.Errorf("%d bytes are in force, want %d", got, step.size)
		}
	}
}

// A change that nobody confirmed is taken back even if rdmad was killed in its window: when the
// window ends, or before the first client if the window has already ended.
func TestConfirmWindowOutlivesAKill(t *testing.T) {
	r := newRig(t)
	p := r.start()
	r.configure(p.addresses["nfs"])
	r.operator(p).change(receiveSize(8192), 0)

	const window = 3 * time.Second
	change := r.operator(p).change(receiveSize(2048), window)
	p.end(t, "KILL", -1)
	p = r.start()
	o := r.operator(p)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	revisions, err := o.settings.WatchSettings(ctx, &rdmadv1.WatchSettingsRequest{})
	if err == nil {
		_, err = revisions.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	// A machine that is busy may be past the window by now.
	for o.newest().GetKind() != rdmadv1.Revision_EXPIRED {
		if _, err := revisions.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if now := time.Now(); now.Before(change.GetConfirmDeadline().AsTime()) {
		t.Errorf("taken back at %v, before %v", now, change.GetConfirmDeadline().AsTime())
	}
	o.isBack(change.GetRevision(), 8192)

	change = o.change(receiveSize(4096), time.Second)
	p.end(t, "KILL", -1)
	<-time.After(time.Until(change.GetConfirmDeadline().AsTime()))
	told := r.firstIn(p.addresses["nfs"])
	p = r.start()
	if got := <-told; got != 8192 {
		t.Errorf("the first client was told of receives of %d bytes, want 8192", got)
	}
	r.operator(p).isBack(change.GetRevision(), 8192)
}

// isBack checks that a revision was taken back, and the settings since.
func (o *operator) isBack(revision, size uint32) {
	o.t.Helper()
	e := o.newest()
	if e.GetKind() != rdmadv1.Revision_EXPIRED || e.GetRevision() != revision+1 || e.GetRestored() != revision-1 || o.inForce() != size {
		o.t.Errorf("after revision %d: %v, %d bytes in force", revision, e, o.inForce())
	}
	if _, err := o.settings.ConfirmSettings(o.t.Context(), &rdmadv1.ConfirmSettingsRequest{Revision: revision}); err == nil {
		o.t.Error("confirmed too late")
	}
}

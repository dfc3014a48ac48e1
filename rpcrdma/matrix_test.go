package rpcrdma_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// speaker is one end of the interoperation matrix: what an implementation
// speaks, as settings. Every extension of version 2 is one more row.
type speaker struct {
	name     string
	settings func(*rpcrdma.Settings)
	// version is the highest that it speaks.
	version int
	// shows checks what is to be seen on a connection of two ends that both
	// have at least what this one has; nil is nothing.
	shows func(*rpcrdma.Info) error
}

var speakers = []speaker{
	{name: "version 1 only", settings: speaking("off"), version: 1},
	{name: "version 2", settings: speaking("on"), version: 2, shows: func(i *rpcrdma.Info) error {
		if !i.VersionAgreed || i.InlineSend < 4096 || i.InlineReceive < 4096 {
			return fmt.Errorf("version 2 shows %+v", i)
		}
		return nil
	}},
	{name: "+ characteristics", settings: speakingWith(rpcrdma.ExtCharacteristics), version: 2, shows: func(i *rpcrdma.Info) error {
		if !i.Characteristics.Spoken || i.Characteristics.Peer.ReceiveSize < 4096 {
			return fmt.Errorf("characteristics are %+v", i.Characteristics)
		}
		return nil
	}},
	{name: "+ continuation", settings: speakingWith(continuation), version: 2, shows: func(i *rpcrdma.Info) error {
		if p := i.Characteristics.Peer; p.RTR != rpcrdma2.RTRRequest|rpcrdma2.RTRResponse|rpcrdma2.RTRContinue || p.RequestReceive != 8 || p.ResponseSend != 8 {
			return fmt.Errorf("characteristics are %+v", i.Characteristics)
		}
		return nil
	}},
	{name: "+ send-based DDP", settings: placing(0), version: 2, shows: showsTargets},
	{name: "all", settings: placing(continuation), version: 2, shows: showsTargets},
}

// showsTargets checks that both ends told the structure of their receives.
func showsTargets(i *rpcrdma.Info) error {
	own, peer := i.Characteristics.Own, i.Characteristics.Peer
	if len(own.Buffer.Groups) != 2 || len(peer.Buffer.Groups) != 2 || own.Buffer.Length != own.ReceiveSize {
		return fmt.Errorf("characteristics are %+v", i.Characteristics)
	}
	return nil
}

// continuation is what extensions.continuation takes.
const continuation = rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtContinuation

// characterizes says whether it begins with characteristics.
func (s *speaker) characterizes() bool { return s.has(rpcrdma.ExtCharacteristics) }

func (s *speaker) extensions() rpcrdma.Extensions {
	set := rpcrdma.DefaultSettings()
	s.settings(&set)
	return set.Extensions
}

// has says whether it speaks all of e.
func (s *speaker) has(e rpcrdma.Extensions) bool { return s.extensions().Has(e) }

// speakingWith sets extensions.v2 to on, and extensions of version 2.
func speakingWith(ext rpcrdma.Extensions) func(*rpcrdma.Settings) {
	return func(s *rpcrdma.Settings) {
		speaking("on")(s)
		s.Extensions |= ext
	}
}

// TestInteroperation: every pair of speakers as client and server passes the
// echo suite, forward and reverse, alone and both at once, on one connection and
// with no call refused but for its version.
func TestInteroperation(t *testing.T) {
	for _, client := range speakers {
		for _, server := range speakers {
			t.Run(client.name+" to "+server.name, func(t *testing.T) {
				eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
					interoperate(t, p, &client, &server)
				})
			})
		}
	}
}

func interoperate(t *testing.T, p rdmacm.Provider, client, server *speaker) {
	with := func(s *speaker) func(*rpcrdma.Settings) {
		return func(set *rpcrdma.Settings) {
			s.settings(set)
			backward(4)(set)
		}
	}
	b := newBed(t, p, bedConfig{settings: with(server)})
	c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}}, with(client))
	if err := everyShape(b, c); err != nil {
		t.Fatalf("forward: %v", err)
	}
	conn.OpenBackchannel()
	reverse := func() (err error) {
		for _, n := range []int{0, 1, 500, 3000} {
			err = errors.Join(err, echo(b.ctx, conn, n, 4))
		}
		return err
	}
	if err := reverse(); err != nil {
		t.Fatalf("reverse: %v", err)
	}
	var both sync.WaitGroup
	for range 4 {
		both.Go(func() {
			if err := everyShape(b, c); err != nil {
				t.Errorf("forward, with reverse: %v", err)
			}
		})
		both.Go(func() {
			if err := reverse(); err != nil {
				t.Errorf("reverse, with forward: %v", err)
			}
		})
	}
	both.Wait()
	ci, si := c.Info(), conn.Info()
	if want := min(client.version, server.version); ci.RPCVersion != want || si.RPCVersion != want || ci.Connects != 1 {
		t.Errorf("version %d and %d on %d connections, want %d", ci.RPCVersion, si.RPCVersion, ci.Connects, want)
	}
	for i := range speakers {
		s := &speakers[i]
		if ext := s.extensions(); s.shows == nil || !client.has(ext) || !server.has(ext) {
			continue
		}
		if err := errors.Join(s.shows(&ci), s.shows(&si)); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
	refused := uint64(0) // a first message of another version is no error
	if client.version <= server.version && client.characterizes() && server.version == 2 && !server.characterizes() {
		refused = 1
	}
	cs, ss := c.Stats(), conn.Stats()
	if ss.Errors != refused || cs.BadReplies+cs.Dropped+ss.Dropped+ss.Ignored+ss.Duplicates != 0 {
		t.Errorf("%+v\n%+v", cs, ss)
	}
}

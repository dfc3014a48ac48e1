package agent

import (
	"context"
	"errors"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// asked answers dry runs of policies. An answer that can't be written is none: the rdmad that
// asks waits for a bounded time.
func (s *session) asked(ctx context.Context, res clientv3.WatchResponse) error {
	if err := store.WatchError(res); err != nil {
		return err
	}
	for _, event := range res.Events {
		asked := s.Store.DecodeDryRun(event.Kv)
		e, err := s.effects(ctx, asked)
		if e != nil && err == nil {
			err = s.Store.Answer(ctx, asked, e)
		}
		if err != nil {
			s.Logger.Debug("fleet: a dry run is not answered", "error", err)
		}
	}
	return nil
}

// effects is what a policy would do on this node; nil if it doesn't concern the node. An error
// is one of etcd.
func (s *session) effects(ctx context.Context, asked *store.Asked) (*fleet.Effects, error) {
	if asked.Err != nil {
		return s.refuses(asked.Err), nil //nolint:nilerr // the answer has it; of a newer rdmad, it may concern this node
	}
	var has []fleet.Ref
	var all []*fleet.Revision
	if s.seen != nil && s.seen.Err == nil {
		var err error
		has = s.seen.Policies
		if all, err = s.versions(ctx); err != nil && !unreadable(err) {
			return nil, err
		}
	}
	if !asked.Policy.Concerns(s.Identity.Labels, has) {
		return nil, nil
	}
	p, err := s.Local.PreviewFleet(fleet.Layer(fleet.Swap(all, asked.Policy, s.Identity.Labels)))
	if err != nil {
		return s.refuses(err), nil
	}
	e := &fleet.Effects{Node: s.Node, Answer: fleet.Accepted, Changes: fleet.ChangesOf(p.Changes), Outcomes: count(p.Effects)}
	for _, pin := range p.Pins[:min(len(p.Pins), fleet.MaxEffects)] {
		e.Pins = append(e.Pins, pin.String())
	}
	return e, nil
}

func (s *session) refuses(err error) *fleet.Effects {
	return &fleet.Effects{Node: s.Node, Answer: fleet.Refused, Reason: bounded(err)}
}

// maxReason bounds the reasons that a node gives, in bytes.
const maxReason = 1024

// bounded returns the text of an error for etcd, which takes no large values.
func bounded(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// unreadable reports whether an error is of a policy, not of etcd.
func unreadable(err error) bool {
	return errors.As(err, new(*store.ValueError)) || errors.As(err, new(*store.MissingError))
}

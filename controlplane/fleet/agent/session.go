package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
)

// session is the time from one list of etcd's keys to the next error.
type session struct {
	*Agent
	presence *store.Presence
	identity fleet.Identity
	alive    <-chan *clientv3.LeaseKeepAliveResponse
	changes  clientv3.WatchChan
	dryRuns  clientv3.WatchChan
	watching context.Context // of both
	heard    time.Time       // when the watch last said something
	poked    chan struct{}   // conditions changed
}

// session joins, and works until an error ends it. joined says whether it got as far as to
// apply what is assigned.
func (a *Agent) session(ctx context.Context) (joined bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got, err := a.Store.Assignment(ctx, a.Node)
	if err != nil {
		return false, err
	}
	if err := a.known(got); err != nil {
		return false, err
	}
	s := &session{Agent: a, identity: a.Identity, heard: time.Now(), poked: make(chan struct{}, 1)}
	s.identity.Since = time.Now().UTC().Truncate(time.Second)
	if a.left != nil {
		a.left.Leave(ctx) // etcd may not have heard of it: the name would be taken by this node
	}
	if s.presence, err = a.Store.Join(ctx, a.Node, &s.identity, int64(a.TTL/time.Second)); err != nil {
		return false, err
	}
	a.left = s.presence
	defer s.presence.Leave(ctx)
	if s.alive, err = a.Store.Client().KeepAlive(ctx, s.presence.Lease); err != nil {
		return false, err
	}
	if err := s.take(ctx, got); err != nil {
		return false, err
	}
	s.watching = clientv3.WithRequireLeader(ctx)
	s.changes = a.Store.Client().Watch(s.watching, a.Store.AssignmentKey(a.Node), clientv3.WithRev(got.Read+1), clientv3.WithProgressNotify())
	s.dryRuns = a.Store.Client().Watch(s.watching, a.Store.DryRuns(), clientv3.WithPrefix(), clientv3.WithRev(got.Read+1), clientv3.WithFilterDelete())
	a.stats.joined(true)
	defer a.stats.joined(false)
	a.Logger.Info("fleet: joined", "node", a.Node, "cluster", fmt.Sprintf("%x", got.Cluster))
	return true, s.work(ctx, got.Cluster)
}

// work reports at intervals and applies what comes.
func (s *session) work(ctx context.Context, cluster uint64) error {
	if err := s.report(ctx); err != nil {
		return err
	}
	every := time.NewTimer(s.pause())
	defer every.Stop()
	defer s.followConditions(ctx)()
	soon := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-s.alive:
			if !ok {
				return &store.LostError{Node: s.Node}
			}
			continue
		case res := <-s.changes:
			err = s.changed(ctx, cluster, res)
		case res := <-s.dryRuns:
			err = s.asked(ctx, res)
		case <-s.poked:
			if !soon {
				every.Reset(s.Every / 10) // for several changes one report
			}
			soon = true
		case <-every.C:
			err = s.tick(ctx)
			every.Reset(s.pause())
			soon = false
		}
		if err != nil {
			return err
		}
	}
}

// followConditions has poked say that conditions changed, until stop is called.
func (s *session) followConditions(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := s.Conditions.Watch()
		defer w.Close()
		for w.Next(ctx.Done()) {
			select {
			case s.poked <- struct{}{}:
			default:
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// pause is the time to the next report: nodes that start together don't report together.
func (s *session) pause() time.Duration { return s.Every*4/5 + rand.N(s.Every*2/5) }

// errSilent means that a watch says nothing although it was asked to.
var errSilent = errors.New("etcd does not answer on the watch")

// tick asks the watch for a word, tries again what was refused, and reports.
func (s *session) tick(ctx context.Context) error {
	if time.Since(s.heard) > silentAfter*s.Every {
		return errSilent
	}
	if err := s.ask(); err != nil {
		return err
	}
	if err := s.apply(ctx); err != nil {
		return err
	}
	return s.report(ctx)
}

// ask asks the watch for a word. Without etcd, the client has no stream to write to, and would
// wait until there is one again.
func (s *session) ask() error {
	ctx, cancel := context.WithTimeout(s.watching, store.Timeout)
	defer cancel()
	return s.Store.Client().RequestProgress(ctx)
}

// changed takes what the watch says. An error ends the session; the next one lists again.
func (s *session) changed(ctx context.Context, cluster uint64, res clientv3.WatchResponse) error {
	if err := store.WatchError(res); err != nil {
		return err
	}
	s.heard = time.Now()
	if len(res.Events) == 0 {
		return nil
	}
	got := &store.Assignment{Cluster: cluster, Read: res.Header.Revision}
	if last := res.Events[len(res.Events)-1]; last.Type != mvccpb.DELETE {
		got.Take(last.Kv)
	}
	if err := s.take(ctx, got); err != nil {
		return err
	}
	return s.report(ctx)
}

// measure takes the load, unless the last interval ended only now: of a few calls, nothing can
// be said.
func (s *session) measure(now time.Time) {
	if now.Sub(s.loadAt) >= s.Every/2 {
		s.load, s.loadAt = s.Load(now), now
	}
}

// report stores the node's report.
func (s *session) report(ctx context.Context) error {
	s.settled()
	s.measure(time.Now())
	now, pins := s.Local.Fleet()
	r := fleet.Report{Applied: now.Assignment, Outcomes: s.outcomes, Load: s.load, Time: time.Now().UTC()}
	if s.seen != nil {
		r.Assigned = s.seen.Revision
	}
	s.stats.reported(r.Assigned, r.Applied, len(pins) > 0, r.Time)
	if s.refused != nil {
		r.Refused = bounded(s.refused)
	}
	for _, p := range pins[:min(len(pins), maxPins)] {
		r.Pins = append(r.Pins, p.String())
	}
	for _, c := range s.Conditions.List().NotOK() {
		if len(r.Conditions) == maxConditions {
			break
		}
		r.Conditions = append(r.Conditions, fleet.Condition{
			Kind: string(c.Kind()), Name: c.Name, Status: c.Status().String(), Reason: c.Reason.Name,
			Message: c.Message, Remedy: c.Remedy(), Since: c.Since.UTC(),
		})
	}
	began := time.Now()
	if err := s.presence.Report(ctx, &s.identity, &r); err != nil {
		return err
	}
	if s.slow++; time.Since(began) < slowAfter {
		s.slow = 0
	}
	s.settled()
	return nil
}

// etcd is slow if it took slowAfter for each of the last slowReports reports.
const (
	slowAfter   = time.Second
	slowReports = 2
)

// Bounds of a report: the worst conditions come first.
const (
	maxPins       = 64
	maxConditions = 32
)

// Package controller writes the assignments of a fleet's nodes to etcd, and carries out
// rollouts.
//
// Every rdmad of a fleet runs a Controller. An election in etcd chooses the one that works.
// Each of its transactions checks the key of its election, so that a controller that lost the
// election without noticing writes nothing.
package controller

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Names of conditions.
const (
	name = conditions.FleetController
	keys = conditions.FleetKeys
)

// DefaultTTL is the default time of the election's lease.
const DefaultTTL = 10 * time.Second

// Config configures a controller.
type Config struct {
	Store      *store.Store
	Node       string // the rdmad's name, to be seen in etcd
	Conditions *conditions.Registry
	Logger     *slog.Logger
	TTL        time.Duration // whole seconds; DefaultTTL if 0

	wrote func() error // after each write, for tests; nil for none
}

// Run takes part in the election, and works while it is won, until ctx ends. If etcd does not
// answer then, Run returns when the Store is closed.
func Run(ctx context.Context, c Config) {
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	defer c.Conditions.Remove(conditions.Fleet, name)
	store.Retry(ctx, c.term, func(err error) {
		c.Logger.Debug("fleet: not the controller", "error", err)
		c.ended(err)
	})
}

// ended makes a refusal by etcd the controller's condition: the node may well be joined. The node's
// condition covers all other errors.
func (c *Config) ended(err error) {
	if err != nil && store.Reason(err) == conditions.FleetDenied {
		c.Conditions.Set(conditions.Finding{Name: name, Reason: conditions.FleetDenied, Message: err.Error()})
		return
	}
	c.Conditions.Remove(conditions.Fleet, name)
}

// term waits to be elected, and works until an error ends that. led says whether it was
// elected.
func (c *Config) term(ctx context.Context) (led bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	session, err := c.session(ctx)
	if err != nil {
		return false, err
	}
	defer c.resign(ctx, session)
	go func() { // ends with cancel
		select {
		case <-session.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	election := concurrency.NewElection(session, c.Store.ElectionKey())
	waiting, elected := context.WithCancel(ctx)
	var waits sync.WaitGroup
	waits.Go(func() { c.wait(waiting) })
	err = election.Campaign(ctx, c.Node)
	elected()
	waits.Wait()
	if err != nil {
		return false, err
	}
	c.Logger.Info("fleet: this rdmad is the controller", "node", c.Node)
	t := &term{Config: c, fence: store.Fence{Key: election.Key(), Revision: election.Rev()}}
	defer t.forget()
	for err == nil {
		err = t.round(ctx)
	}
	return true, err
}

// wait makes conditions of a candidate while others lead.
func (c *Config) wait(ctx context.Context) {
	defer c.Conditions.Remove(conditions.Fleet, keys)
	for next := store.Timeout; ; next = 3 * c.TTL {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		c.Conditions.Remove(conditions.Fleet, name) // a refusal comes at once: it is over
		if err := c.Store.Blocked(ctx); errors.As(err, new(*store.ValueError)) {
			c.Conditions.Set(conditions.Finding{Name: keys, Reason: conditions.FleetLeftOut, Message: err.Error()})
		} else if err == nil {
			c.Conditions.Remove(conditions.Fleet, keys)
		}
	}
}

// resign ends the lease of the election at once, if etcd answers, so that another controller
// need not wait for its end.
func (c *Config) resign(ctx context.Context, session *concurrency.Session) {
	session.Orphan()
	c.Store.Revoke(ctx, session.Lease())
}

// session makes the lease of the election.
func (c *Config) session(ctx context.Context) (*concurrency.Session, error) {
	granting, cancel := context.WithTimeout(ctx, store.Timeout)
	defer cancel()
	lease, err := c.Store.Client().Grant(granting, int64(c.TTL/time.Second))
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(c.Store.Client(), concurrency.WithLease(lease.ID), concurrency.WithContext(ctx))
}

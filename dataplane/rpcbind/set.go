package rpcbind

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
)

// Set replaces the registrations. New ones are registered and missing ones removed soon
// after. Two addresses for the same program, version and transport are an error, and
// nothing changes then.
func (r *Registrar) Set(list []Registration) error {
	all, err := entries(list, strconv.Itoa(os.Geteuid()))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.wanted, r.changed = all, true
	r.mu.Unlock()
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return nil
}

// adopt makes the entries of the last Set current. Entries that stay keep their state.
// Entries that go are removed even if they were never seen registered, because a check may
// have been interrupted.
func (r *Registrar) adopt() {
	r.mu.Lock()
	wanted, changed := r.wanted, r.changed
	r.wanted, r.changed = nil, false
	r.mu.Unlock()
	if !changed {
		return
	}
	for _, old := range r.entries {
		if i := indexOf(wanted, &old); i >= 0 {
			wanted[i] = old
		} else if indexOf(r.leaving, &old) < 0 {
			r.leaving = append(r.leaving, old)
		}
	}
	r.entries = wanted
	// An entry that was leaving and is wanted again stays.
	r.leaving = slices.DeleteFunc(r.leaving, func(e entry) bool { return indexOf(wanted, &e) >= 0 })
}

// indexOf returns the index of an entry with the same identity and address.
func indexOf(list []entry, e *entry) int {
	return slices.IndexFunc(list, func(o entry) bool { return o.same(&e.mapping) && o.address == e.address })
}

// removeLeaving removes entries that are no longer wanted, and returns what rpcbind has
// afterwards. It logs entries that rpcbind keeps and does not try again, because the answer
// would be the same.
func (r *Registrar) removeLeaving(ctx context.Context, c *client, held []mapping) ([]mapping, error) {
	for len(r.leaving) > 0 {
		e := &r.leaving[0]
		removed, err := r.removeOne(ctx, c, held, e)
		if errors.As(err, new(*KeptError)) {
			r.log.Warn("still registered with rpcbind", "error", err.Error())
		} else if err != nil {
			return held, err
		}
		if removed {
			held = slices.DeleteFunc(held, func(m mapping) bool { return e.same(&m) })
		}
		r.leaving = r.leaving[1:]
	}
	return held, nil
}

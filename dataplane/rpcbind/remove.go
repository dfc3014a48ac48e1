package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Close stops the checks and unregisters. ctx limits it. The error says what is still
// registered, as far as that is known. It is nil if rpcbind is unavailable and nothing was
// registered. A Registrar that was not started, or is closed already, is closed without
// calling rpcbind.
func (r *Registrar) Close(ctx context.Context) error {
	cut := r.cut
	if cut == nil {
		return nil
	}
	r.cut = nil
	defer cut()
	close(r.closing)
	select {
	case <-r.done:
	case <-ctx.Done(): // a check hangs
		cut()
		<-r.done
	}
	return r.remove(ctx)
}

// remove removes the entries that rpcbind has with our addresses, including those of a Set
// that was not applied yet. Entries with other addresses belong to other services.
func (r *Registrar) remove(ctx context.Context) error {
	r.adopt()
	all := slices.Concat(r.entries, r.leaving)
	if len(all) == 0 {
		return nil
	}
	c, held, err := r.ask(ctx)
	if err != nil {
		if slices.ContainsFunc(all, func(e entry) bool { return e.registered }) {
			return fmt.Errorf("not unregistered: %w", err)
		}
		return nil
	}
	defer c.close()
	var kept error
	for i := range all {
		_, err := r.removeOne(ctx, c, held, &all[i])
		if err != nil && !errors.As(err, new(*KeptError)) {
			return errors.Join(kept, fmt.Errorf("not unregistered: %w", err))
		}
		kept = errors.Join(kept, err)
	}
	return kept
}

// removeOne removes an entry if rpcbind has it with our address. The error is a *KeptError if
// rpcbind refuses.
func (r *Registrar) removeOne(ctx context.Context, c *client, held []mapping, e *entry) (removed bool, err error) {
	m := find(held, e)
	if m == nil || m.address != e.address {
		return false, nil
	}
	ok, err := c.unset(ctx, &e.mapping)
	if err == nil && !ok {
		err = &KeptError{What: e.String(), Program: e.program, Version: e.version, Owner: m.owner}
	}
	if err != nil {
		return false, err
	}
	r.log.Info("unregistered from rpcbind", "program", e.program, "version", e.version, "netid", e.netid)
	return true, nil
}

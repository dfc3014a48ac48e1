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
		if anyRegistered(all) {
			return fmt.Errorf("not unregistered: %w", err)
		}
		return nil
	}
	defer c.close()
	var kept []error
	for i := range all {
		e := &all[i]
		m := find(held, e)
		if m == nil || m.address != e.address {
			continue
		}
		ok, err := c.unset(ctx, &e.mapping)
		if err != nil {
			return errors.Join(append(kept, fmt.Errorf("not unregistered: %w", err))...)
		}
		if !ok {
			kept = append(kept, &KeptError{What: e.String(), Program: e.program, Version: e.version, Owner: m.owner})
			continue
		}
		r.log.Info("unregistered from rpcbind", "program", e.program, "version", e.version, "netid", e.netid)
	}
	return errors.Join(kept...)
}

func anyRegistered(all []entry) bool {
	return slices.ContainsFunc(all, func(e entry) bool { return e.registered })
}

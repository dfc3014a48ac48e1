package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Close ends the looking and unregisters. ctx bounds it. The error says what
// is left registered, as far as that is known; rpcbind being away is none when
// nothing was registered. A Registrar that was not started is closed without
// asking rpcbind, and so is one that is closed already.
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
	case <-ctx.Done(): // a look hangs
		cut()
		<-r.done
	}
	return r.remove(ctx)
}

// remove removes the entries that stand in rpcbind with our addresses, those
// of a Set that was not looked at yet included. Whatever else has their places
// by now is somebody else's.
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

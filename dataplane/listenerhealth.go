package dataplane

// stateLocked is the listener's state and, when it is degraded, why. What it
// waits for is the provider's to see: a device, a port, an address.
func (l *listener) stateLocked() (state, trouble string) {
	if l.draining {
		return StateDraining, ""
	}
	if _, reason := l.rl.Health(); reason != nil {
		return StateDegraded, reason.Error()
	}
	return StateUp, ""
}

// followHealth logs when the listener can't be reached any more, and when it can
// again, until it stops.
func (l *listener) followHealth() {
	before := ""
	for {
		changed, reason := l.rl.Health()
		now := ""
		if reason != nil {
			now = reason.Error()
		}
		switch {
		case now != "" && now != before:
			l.d.log.Warn("listener degraded", "listener", l.cfg.Name, "reason", now)
		case now == "" && before != "":
			l.d.log.Info("listener healthy again", "listener", l.cfg.Name)
		}
		before = now
		select {
		case <-changed:
		case <-l.ctx.Done():
			return
		}
	}
}

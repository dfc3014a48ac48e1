package dataplane

// followHealth logs when the listener becomes unreachable and when it is reachable again. It
// runs until the listener stops.
func (l *Listener) followHealth() {
	before := ""
	for {
		changed, reason := l.rl.Health()
		now := ""
		if reason != nil {
			now = reason.Error()
		}
		switch {
		case now != "" && now != before:
			l.d.log.Warn("listener degraded", "listener", l.name, "reason", now)
		case now == "" && before != "":
			l.d.log.Info("listener healthy again", "listener", l.name)
		}
		before = now
		select {
		case <-changed:
		case <-l.taking.Done():
			return
		}
	}
}

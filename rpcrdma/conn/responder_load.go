package conn

// Aim sets what the adaptive policy grants from the next answer on, within the bounds of
// the settings. With 0, the connection's own load decides.
func (r *Responder) Aim(n int) { r.adaptive.Aim(n) }

// Limit returns the number of calls that the peer may rely on now: the largest grant that
// no later answer has taken back.
func (r *Responder) Limit() int { return r.grants.Limit() }

// TakePeak returns the most calls in progress at once since it was last called.
func (r *Responder) TakePeak() int { return max(r.adaptive.TakePeak(), r.grants.Held()) }

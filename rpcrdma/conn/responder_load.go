package conn

// Aim says what the adaptive policy is to grant, from the next answer on,
// within the bounds of the settings; 0 leaves it to the connection's own load.
func (r *Responder) Aim(n int) { r.adaptive.Aim(n) }

// Limit is the number of calls that the peer may count on now: what was
// granted, as far as it was not taken back by answers that granted less.
func (r *Responder) Limit() int { return r.grants.Limit() }

// TakePeak is the most calls in progress at once since it was asked last.
func (r *Responder) TakePeak() int { return max(r.adaptive.TakePeak(), r.grants.Held()) }

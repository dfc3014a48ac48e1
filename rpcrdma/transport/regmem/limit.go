package regmem

// MinLimit is the smallest limit of a pool, in bytes. With it each share has room for one
// of the largest buffers.
const MinLimit = 4 * MaxBuffer

// The parts of a pool's limit that receives may take, and that small buffers and large
// receives together may take. They are for code that plans the receives of many
// connections.
const (
	ReceiveShare = receiveShare / 8.0
	SmallShare   = baseShare / 8.0
)

// SetLimit changes the limit, to at least MinLimit. Buffers in use stay, so the limit does
// not fall below what every share holds now. It returns the limit in force.
func (p *Pool) SetLimit(limit int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit = max(limit, MinLimit)
	if limit >= p.limit {
		p.limit = limit
		p.divide()
		p.wake()
		return limit
	}
	for p.held() > limit && !p.closed {
		s := p.unused(classes - 1)
		if s == nil {
			break
		}
		p.drop(s) // releases the lock
	}
	if p.closed {
		p.mustSweep()
	}
	p.limit = max(limit, p.held())
	p.divide()
	p.wake() // who waits may be beyond the limit now
	return p.limit
}

// held returns the smallest limit that fits what the pool holds now. It never exceeds the
// current limit, apart from rounding. p.mu is held.
func (p *Pool) held() int64 {
	return max(p.registered, whole(p.base, baseShare), whole(p.receives(), receiveShare), whole(p.used[Fetch], fetchShare))
}

// whole returns the smallest limit of which n bytes are at most eighths eighths.
func whole(n, eighths int64) int64 { return (n + eighths - 1) / eighths * 8 }

// Division is how much of a pool's limit large buffers of each use may take, in bytes. All
// parts fit into the limit at the same time.
type Division struct{ Service, Fetch int64 }

// OnDivision calls f with the current division, and again whenever it changes. f must
// neither block nor use the pool. Call OnDivision before the pool is used.
func (p *Pool) OnDivision(f func(Division)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.divided = f
	p.divide()
}

// divide reports the division; p.mu is held. Services get what receives and fetches
// leave. At least comingShare stays free for new connections.
func (p *Pool) divide() {
	fetch := p.share(fetchShare)
	p.divided(Division{Service: p.limit - max(p.base, p.share(comingShare)) - fetch, Fetch: fetch})
}

// Footprint returns how much memory a buffer of n bytes takes, in bytes. n is at most
// MaxBuffer.
func Footprint(n int) int { return classSize(classOf(n)) }

package regmem

// MinLimit is the least that a pool may hold, in bytes: what each share needs
// for one of the largest buffers.
const MinLimit = 4 * MaxBuffer

// What those need to know who plan the receives of many connections: the parts
// of a pool's limit, as ratios, that receives may take, and that small buffers
// and large receives may take together.
const (
	ReceiveShare = receiveShare / 8.0
	SmallShare   = baseShare / 8.0
)

// SetLimit changes the limit from now on, to at least MinLimit. What is taken
// stays: the limit does not fall below what keeps every share within its
// part. SetLimit returns the limit that is in force.
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
		p.drop(s) // lets the lock go
	}
	if p.closed {
		p.mustSweep()
	}
	p.limit = max(limit, p.held())
	p.divide()
	return p.limit
}

// held is the least limit that fits what the pool holds; p.mu is held. It
// never exceeds the limit of now, rounding aside.
func (p *Pool) held() int64 {
	return max(p.registered, whole(p.base, baseShare), whole(p.receives(), receiveShare), whole(p.used[Fetch], fetchShare))
}

// whole is the smallest limit of which n bytes are no more than so many
// eighths.
func whole(n, eighths int64) int64 { return (n + eighths - 1) / eighths * 8 }

// Division is how much of a pool's limit may be large buffers of each use, in
// bytes. The parts fit into the limit at the same time.
type Division struct{ Service, Fetch int64 }

// OnDivision calls f with the division now, and whenever it changes. f must neither
// block nor use the pool. Call OnDivision before the pool is used.
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

// Footprint is the memory that a buffer of n bytes takes, for n up to
// MaxBuffer.
func Footprint(n int) int { return classSize(classOf(n)) }

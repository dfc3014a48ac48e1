package referee

import "fmt"

// Config is the configuration of a Referee.
type Config struct {
	// Vantage is where the events are seen. At an end, the peer's RDMA Writes
	// and Reads count as unseen until the first one is seen, because an adapter
	// does not report those that it serves.
	Vantage Vantage
	// Report receives each violation when it is seen. Connect, Observe and Gap
	// call it. It must not call the Referee. It may be nil.
	Report func(Violation)
}

// Referee judges one connection. Its memory is bounded; see GivenUp.
type Referee struct {
	cfg     Config
	givenUp string
	frame   uint64
	ended   [2]Kind // Terminate or Close, once the side has sent it

	told   [2]told       // from CM private data
	dirs   [2]*direction // of calls, by caller
	memory memory
	back   backchannel
	ccp    ccp
	v2     version2

	lastError [2]lastError
	sum       Summary
}

// New makes a Referee for a connection that has not begun.
func New(cfg Config) *Referee {
	r := &Referee{cfg: cfg}
	r.reset()
	return r
}

// reset forgets what is kept of the connection.
func (r *Referee) reset() {
	r.memory, r.v2 = newMemory(), newVersion2()
	r.dirs = [2]*direction{newDirection(Client), newDirection(Server)}
}

// Connect passes the CM private data that the two sides exchanged (RFC 8797).
func (r *Referee) Connect(p Private) {
	r.told = [2]told{Client: r.private(Client, p.Client), Server: r.private(Server, p.Server)}
	r.sum.Client.Private, r.sum.Server.Private = r.told[Client].summary(), r.told[Server].summary()
}

// Observe judges an event. It keeps no part of e.
func (r *Referee) Observe(e *Event) {
	if r.givenUp != "" {
		return
	}
	r.frame = e.Frame
	if end := r.ended[e.From]; end != Send {
		if end == Terminate && e.Kind <= Read {
			r.report("iwarp.after-terminate", e.From, "%v after a Terminate of the same side", e.Kind)
		}
		return
	}
	switch e.Kind {
	case Send, SendInvalidate:
		r.send(e)
	case Write:
		r.write(e)
	case Read:
		r.read(e)
	case ReadDone:
		r.readDone(e)
	case Terminate, Close:
		r.ended[e.From] = e.Kind
		r.refusedSize(e)
	}
}

// Gap says that events are missing here. Call it where a capture lost packets,
// or if it began after the connection did.
func (r *Referee) Gap() {
	for _, d := range r.dirs {
		d.gap()
	}
	r.memory.gap()
	r.back.unsure = true
	r.v2.gap()
}

// GivenUp returns why the Referee no longer follows the connection, or "".
// After it gave up, it reports nothing more.
func (r *Referee) GivenUp() string { return r.givenUp }

// giveUp ends the judging and frees the kept state.
func (r *Referee) giveUp(format string, args ...any) {
	r.givenUp = fmt.Sprintf(format, args...)
	r.reset()
}

// report passes a violation of the named rule to Config.Report.
func (r *Referee) report(name string, by Side, format string, args ...any) {
	if r.cfg.Report == nil || r.givenUp != "" {
		return
	}
	r.cfg.Report(Violation{
		Rule: name, Section: ruleNamed(name).Section, By: by, Frame: r.frame, Message: fmt.Sprintf(format, args...),
	})
}

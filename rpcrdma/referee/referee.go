package referee

import "fmt"

// Config is what a Referee is to know beforehand.
type Config struct {
	// Vantage is where the events are seen. At an end the RDMA Writes and
	// Reads of the peer count as unseen until one was seen: an adapter says
	// nothing about those that it serves.
	Vantage Vantage
	// Report takes each violation as it is seen. It is called by Connect,
	// Observe and Gap, and must not call the Referee.
	Report func(Violation)
}

// Referee judges one connection. Its memory is bounded: see GivenUp.
type Referee struct {
	cfg     Config
	givenUp string
	frame   uint64
	ended   [2]Kind // Terminate or Close, once the side has said so

	told   [2]told       // by CM private data
	dirs   [2]*direction // of calls, by the side that calls
	memory memory
	back   backchannel
	ccp    ccp
	v2     version2

	lastError [2]lastError
	sum       Summary
}

// New makes a Referee of a connection that has not begun.
func New(cfg Config) *Referee {
	r := &Referee{cfg: cfg, memory: newMemory(), v2: newVersion2()}
	for _, s := range []Side{Client, Server} {
		r.dirs[s] = newDirection(s)
	}
	return r
}

// Connect gives what the two sides told each other when the connection was
// made.
func (r *Referee) Connect(p Private) {
	r.told = [2]told{Client: r.private(Client, p.Client), Server: r.private(Server, p.Server)}
	r.sum.Client.Private, r.sum.Server.Private = r.told[Client].summary(), r.told[Server].summary()
}

// Observe judges an event.
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

// Gap says that events are missing here: a capture that lost packets, or one
// that began after the connection did.
func (r *Referee) Gap() {
	for _, d := range r.dirs {
		d.gap()
	}
	r.memory.gap()
	r.back.unsure = true
	r.v2.gap()
}

// GivenUp says why the Referee no longer follows the connection, or "". It
// stays silent from then on.
func (r *Referee) GivenUp() string { return r.givenUp }

// giveUp ends the judging and frees what was kept.
func (r *Referee) giveUp(format string, args ...any) {
	r.givenUp = fmt.Sprintf(format, args...)
	r.memory, r.v2 = newMemory(), newVersion2()
	for _, s := range []Side{Client, Server} {
		r.dirs[s] = newDirection(s)
	}
}

// report says that a side broke the rule of a name.
func (r *Referee) report(name string, by Side, format string, args ...any) {
	if r.cfg.Report == nil || r.givenUp != "" {
		return
	}
	r.cfg.Report(Violation{
		Rule: name, Section: ruleNamed(name).Section, By: by, Frame: r.frame, Message: fmt.Sprintf(format, args...),
	})
}

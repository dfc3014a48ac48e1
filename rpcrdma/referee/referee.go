package referee

// Config is what a Referee is to know beforehand.
type Config struct {
	// Vantage is where the events are seen.
	Vantage Vantage
	// Report takes each violation as it is seen. It is called by Connect,
	// Observe and Gap, and must not call the Referee.
	Report func(Violation)
}

// Referee judges one connection. Its memory is bounded: see GivenUp.
type Referee struct {
	cfg     Config
	givenUp string
}

// New makes a Referee of a connection that has not begun.
func New(cfg Config) *Referee { return &Referee{cfg: cfg} }

// Connect gives what the two sides told each other when the connection was
// made.
func (r *Referee) Connect(p Private) {}

// Observe judges an event.
func (r *Referee) Observe(e *Event) {}

// Gap says that events are missing here: a capture that lost packets, or one
// that began after the connection did.
func (r *Referee) Gap() {}

// GivenUp says why the Referee no longer follows the connection, or "". It
// stays silent from then on.
func (r *Referee) GivenUp() string { return r.givenUp }

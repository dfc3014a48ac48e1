package referee

import "math"

const (
	firstGrant    = 1 // until the first reply (RFC 5666 §6.1)
	unbounded     = math.MaxUint64
	maxGrantsKept = 256
)

// credits judges the calls of one direction against the grants.
//
// Nobody outside knows which replies a requester had received when it made a
// call: those that were seen may still have been on their way. So the requester
// is taken to have received the fewest that make its calls lawful, and never
// fewer than before. When all that were seen are not enough, it broke the rule.
type credits struct {
	sent, answered uint64
	// seen[0] is the last answer that the requester must have received; the
	// others followed.
	seen []grant
	now  uint64 // the responder's last message of version 2
}

// grant is what a requester knows after an answer.
type grant struct {
	answered uint64 // calls, all together
	credits  uint64
	seq      uint64 // of the message of version 2 that it came with
	missed   bool   // it was not seen; credits is a bound of it
}

func newCredits() credits { return credits{seen: []grant{{credits: firstGrant}}} }

// asks notes that a call asks for n credits. A requester has no more in flight
// than it asked for (RFC 8166 §3.3.1): that bounds a grant that was missed.
func (c *credits) asks(n uint64) {
	if g := &c.seen[0]; g.missed && n > 0 && (n > g.credits || g.credits == unbounded) {
		g.credits = n
	}
}

// call counts n more messages that take a credit each and says whether all in
// flight may be.
func (c *credits) call(n uint64) bool {
	c.sent += n
	for len(c.seen) > 1 && !c.seen[0].allows(c.sent) {
		c.seen = c.seen[1:]
	}
	return c.seen[0].allows(c.sent)
}

func (g grant) allows(sent uint64) bool { return sent <= g.answered || sent-g.answered <= g.credits }

// answer counts n credits that came back with a grant.
func (c *credits) answer(n uint64, granted uint64) {
	c.answered = min(c.answered+n, c.sent)
	c.seen = append(c.seen, grant{answered: c.answered, credits: max(granted, 1), seq: c.now})
	if len(c.seen) > maxGrantsKept { // as if they had come together, with the larger grant
		c.seen[1].credits, c.seen[1].seq = max(c.seen[0].credits, c.seen[1].credits), c.seen[0].seq
		c.seen[1].missed = c.seen[0].missed || c.seen[1].missed
		c.seen = append(c.seen[:0], c.seen[1:]...)
	}
}

// answerWithout counts n credits that came back in a message whose credit field
// may or may not count.
func (c *credits) answerWithout(n, granted uint64) {
	c.answer(n, max(granted, c.seen[len(c.seen)-1].credits))
}

// received is the last message of version 2 that the requester must have
// received.
func (c *credits) received() uint64 { return c.seen[0].seq }

// granted is the last grant.
func (c *credits) granted() uint64 { return c.seen[len(c.seen)-1].credits }

func (c *credits) inFlight() uint64 { return c.sent - c.answered }

// gap leaves no call that is known to be in flight, and an unknown grant.
func (c *credits) gap() {
	c.answered = c.sent
	c.seen = append(c.seen[:0], grant{answered: c.answered, credits: unbounded, missed: true})
}

package referee

import "math"

const (
	firstGrant    = 1 // until the first reply (RFC 5666 §6.1)
	unbounded     = math.MaxUint64
	maxGrantsKept = 256
)

// credits judges the calls of one direction against the grants.
//
// An observer can't know which replies a requester had received when it made a
// call: a reply that was seen may still have been on its way. credits therefore
// assumes that the requester had received the fewest replies that make its
// calls lawful, and never fewer than before. If even all replies seen are not
// enough, the requester broke the rule.
type credits struct {
	sent, answered uint64
	// seen[0] is the last answer that the requester must have received. The
	// others followed it.
	seen []grant
	now  uint64 // seq of the responder's last message of version 2
}

// grant is what a requester knows after it received an answer.
type grant struct {
	answered uint64 // calls answered so far
	credits  uint64
	seq      uint64 // of the message of version 2 that carried the grant
	missed   bool   // the answer was not seen; credits is only a bound
}

func newCredits() credits { return credits{seen: []grant{{credits: firstGrant}}} }

// asks records that a call asks for n credits. A requester never has more calls
// in flight than it asked for (RFC 8166 §3.3.1). This bounds a grant that was
// missed.
func (c *credits) asks(n uint64) {
	if g := &c.seen[0]; g.missed && n > 0 && (n > g.credits || g.credits == unbounded) {
		g.credits = n
	}
}

// call counts n more messages that take one credit each. It reports whether all
// messages in flight are allowed.
func (c *credits) call(n uint64) bool {
	c.sent += n
	for len(c.seen) > 1 && !c.seen[0].allows(c.sent) {
		c.seen = c.seen[1:]
	}
	return c.seen[0].allows(c.sent)
}

func (g grant) allows(sent uint64) bool { return sent <= g.answered || sent-g.answered <= g.credits }

// answer records n returned credits and a new grant.
func (c *credits) answer(n uint64, granted uint64) {
	c.answered = min(c.answered+n, c.sent)
	c.seen = append(c.seen, grant{answered: c.answered, credits: max(granted, 1), seq: c.now})
	if len(c.seen) > maxGrantsKept { // merge the two oldest and keep the larger grant
		c.seen[1].credits, c.seen[1].seq = max(c.seen[0].credits, c.seen[1].credits), c.seen[0].seq
		c.seen[1].missed = c.seen[0].missed || c.seen[1].missed
		c.seen = append(c.seen[:0], c.seen[1:]...)
	}
}

// answerWithout records n returned credits from a message whose credit field
// may or may not be a grant.
func (c *credits) answerWithout(n, granted uint64) {
	c.answer(n, max(granted, c.seen[len(c.seen)-1].credits))
}

// received returns the seq of the last message of version 2 that the requester
// must have received.
func (c *credits) received() uint64 { return c.seen[0].seq }

// granted returns the last grant.
func (c *credits) granted() uint64 { return c.seen[len(c.seen)-1].credits }

func (c *credits) inFlight() uint64 { return c.sent - c.answered }

// gap leaves no call in flight and the grant unknown.
func (c *credits) gap() {
	c.answered = c.sent
	c.seen = append(c.seen[:0], grant{answered: c.answered, credits: unbounded, missed: true})
}

package referee

import "slices"

// Summary counts what the two sides did, as far as it was seen.
type Summary struct {
	Versions         []uint32 // of the messages, in order of first use
	Client, Server   SideSummary
	Forward, Reverse CallSummary // calls of the client, calls of the server
	// InlineAt counts the calls that used chunks and would have needed none
	// with larger inline thresholds.
	InlineAt []InlineAt
}

// Told is the content of a side's CM private data (RFC 8797). Sizes are in
// bytes.
type Told struct {
	Known              bool // the handshake was seen
	RemoteInvalidation bool
	SendSize           int
	ReceiveSize        int
}

// SideSummary counts what one side did.
type SideSummary struct {
	Private             Told
	Sends               uint64 // with and without invalidation
	SendsWithInvalidate uint64
	Writes, Reads       uint64
	STags               uint64 // offered; counted again when offered again after an answer
}

// CallSummary counts the calls of one direction.
type CallSummary struct {
	Calls, Replies uint64
	CreditsAsked   uint32 // in the last call
	CreditsGranted uint32 // in the last reply
	MostInFlight   uint64 // a lower bound
}

// InlineAt is the number of calls that need no chunks if both inline thresholds
// are Threshold bytes.
type InlineAt struct {
	Threshold int
	Calls     uint64
}

// thresholds are the inline thresholds in InlineAt, in bytes.
var thresholds = [...]int{4 << 10, 8 << 10, 16 << 10, 64 << 10}

// Summary returns the counts up to now. The caller owns the result.
func (r *Referee) Summary() Summary {
	s := r.sum
	s.Versions = slices.Clone(s.Versions)
	s.InlineAt = slices.Clone(s.InlineAt)
	return s
}

func (s *Summary) side(by Side) *SideSummary {
	if by == Client {
		return &s.Client
	}
	return &s.Server
}

func (s *Summary) direction(d *direction) *CallSummary {
	if d.caller == Client {
		return &s.Forward
	}
	return &s.Reverse
}

func (s *Summary) version(v uint32) {
	if !slices.Contains(s.Versions, v) {
		s.Versions = append(s.Versions, v)
	}
}

func (s *Summary) sent(e *Event) {
	side := s.side(e.From)
	side.Sends++
	if e.Kind == SendInvalidate {
		side.SendsWithInvalidate++
	}
}

func (s *Summary) called(d *direction) {
	c := s.direction(d)
	c.Calls++
	c.MostInFlight = max(c.MostInFlight, d.credits.inFlight())
}

func (s *Summary) askedFor(d *direction, credits uint32) { s.direction(d).CreditsAsked = credits }
func (s *Summary) granted(d *direction, credits uint32)  { s.direction(d).CreditsGranted = credits }

// offered counts the STags that a message offers.
func (s *Summary) offered(m *message) {
	seen := map[uint32]bool{}
	for _, w := range m.windows {
		seen[w.stag] = true
	}
	s.side(m.from).STags += uint64(len(seen))
}

// replied counts a reply, and the thresholds at which it and its call need no chunks.
func (s *Summary) replied(d *direction, c *call, m *message) {
	s.direction(d).Replies++
	var read, written, reply uint64
	for _, x := range c.reads {
		read += uint64(x.length)
	}
	for _, chunk := range m.writes {
		written += total(chunk)
	}
	if reply = total(m.reply); read+written+reply > 0 {
		s.saves(uint64(c.length)+roundup(read), uint64(m.length)+roundup(written)+reply)
	}
}

// saves counts the thresholds at which a call and its reply need no chunks.
// call and reply are their sizes with all data in the Send.
func (s *Summary) saves(call, reply uint64) {
	if s.InlineAt == nil {
		for _, t := range thresholds {
			s.InlineAt = append(s.InlineAt, InlineAt{Threshold: t})
		}
	}
	for i := range s.InlineAt {
		if max(call, reply) <= uint64(s.InlineAt[i].Threshold) {
			s.InlineAt[i].Calls++
		}
	}
}

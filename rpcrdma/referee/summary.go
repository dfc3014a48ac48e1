package referee

import "slices"

// Summary is what the two sides did, as far as it was seen.
type Summary struct {
	Versions         []uint32 // of the messages, in the order in which they came first
	Client, Server   SideSummary
	Forward, Reverse CallSummary // calls of the client, and of the server
	// InlineAt counts the calls with chunks, or with replies in chunks, that
	// would have needed none if both thresholds were the size.
	InlineAt []InlineAt
}

// Told is a side's CM private data.
type Told struct {
	Known              bool // the handshake was seen
	Present            bool // the side sent private data of RFC 8797
	RemoteInvalidation bool
	SendSize           int
	ReceiveSize        int
}

// SideSummary is what one side did.
type SideSummary struct {
	Private              Told
	Sends                uint64 // those with invalidation, too
	SendsWithInvalidate  uint64
	LargestSend          int
	Writes, Reads        uint64
	WriteBytes           uint64
	ReadBytes            uint64
	Segments             uint64 // offered
	STags                uint64 // offered, counted again when they are offered again after an answer
	SendBytes            uint64
	LargestSegmentOffers int // most segments in one message
}

// CallSummary is one direction of calls.
type CallSummary struct {
	Calls, Replies, Errors uint64
	CreditsAsked           uint32 // last
	CreditsGranted         uint32 // last
	MostInFlight           uint64 // at least
	ReadChunkBytes         uint64 // offered by calls for arguments and long calls
	WriteChunkBytes        uint64 // returned in write chunks
	ReplyChunkBytes        uint64 // returned in reply chunks
	Chunked                uint64 // calls with chunks used, either way
	Programs               []Program
}

// Program is an RPC program that was called.
type Program struct{ Program, Version uint32 }

// InlineAt is a count of calls.
type InlineAt struct {
	Threshold int
	Calls     uint64
}

const maxPrograms = 16

// thresholds that InlineAt is about.
var thresholds = [...]int{4 << 10, 8 << 10, 16 << 10, 64 << 10}

// Summary says what the connection did so far.
func (r *Referee) Summary() Summary {
	s := r.sum
	s.Versions = slices.Clone(s.Versions)
	s.InlineAt = slices.Clone(s.InlineAt)
	s.Forward.Programs, s.Reverse.Programs = slices.Clone(s.Forward.Programs), slices.Clone(s.Reverse.Programs)
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
	side.SendBytes += uint64(max(e.Length, 0))
	side.LargestSend = max(side.LargestSend, e.Length)
	if e.Kind == SendInvalidate {
		side.SendsWithInvalidate++
	}
}

func (s *Summary) wrote(e *Event) {
	side := s.side(e.From)
	side.Writes++
	side.WriteBytes += uint64(max(e.Length, 0))
}

func (s *Summary) read(e *Event) {
	side := s.side(e.From)
	side.Reads++
	side.ReadBytes += uint64(max(e.Length, 0))
}

func (s *Summary) called(d *direction) {
	c := s.direction(d)
	c.Calls++
	c.MostInFlight = max(c.MostInFlight, d.credits.inFlight())
}

func (s *Summary) askedFor(d *direction, credits uint32) { s.direction(d).CreditsAsked = credits }
func (s *Summary) granted(d *direction, credits uint32)  { s.direction(d).CreditsGranted = credits }
func (s *Summary) errored(d *direction)                  { s.direction(d).Errors++ }

// offered counts what a message offers.
func (s *Summary) offered(m *message) {
	side := s.side(m.from)
	side.Segments += uint64(len(m.windows))
	side.LargestSegmentOffers = max(side.LargestSegmentOffers, len(m.windows))
	seen := map[uint32]bool{}
	for _, w := range m.windows {
		seen[w.stag] = true
	}
	side.STags += uint64(len(seen))
}

func (s *Summary) program(c *call, d *direction) {
	list := &s.direction(d).Programs
	p := Program{c.rpc.program, c.rpc.version}
	if len(*list) < maxPrograms && !slices.Contains(*list, p) {
		*list = append(*list, p)
	}
}

// replied counts a reply and what chunks carried for its call.
func (s *Summary) replied(d *direction, c *call, m *message) {
	sum := s.direction(d)
	sum.Replies++
	var read, written, reply uint64
	for _, x := range c.reads {
		read += uint64(x.length)
	}
	for _, chunk := range m.writes {
		written += total(chunk)
	}
	reply = total(m.reply)
	sum.ReadChunkBytes += read
	sum.WriteChunkBytes += written
	sum.ReplyChunkBytes += reply
	if read+written+reply == 0 {
		return
	}
	sum.Chunked++
	s.saves(uint64(c.length)+roundup(read), uint64(m.length)+roundup(written)+reply)
}

// saves counts the thresholds at which a call and its reply, of the sizes that
// they have with all in the Send, need no chunks.
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

package conn

// Offered counts the segments of a call's read chunks, of its write chunks and
// of its reply chunk, and the bytes that the last two have room for. It is valid
// until Reply, which changes the lists.
func (c *Call) Offered() (reads, writes, reply int, bytes uint64) {
	reads = len(c.header.Reads)
	for _, w := range c.header.Writes {
		writes += len(w)
		for i := range w {
			bytes += uint64(w[i].Length)
		}
	}
	reply = len(c.header.Reply)
	for i := range c.header.Reply {
		bytes += uint64(c.header.Reply[i].Length)
	}
	return reads, writes, reply, bytes
}

// Waiting is the number of calls that wait for a credit.
func (r *Requester) Waiting() int { return len(r.waiting) }

// InFlight is the number of calls, and of other messages that are answered, that
// went out and are not answered.
func (r *Requester) InFlight() int { return len(r.sent) }

package transport

import "math/bits"

// SizeBuckets is the number of buckets of a SizeCounts. The largest message,
// conn.MaxMessage, is in the third bucket from the end.
const SizeBuckets = 24

// SizeCounts counts sizes by powers of two. Bucket 0 counts sizes of 0 bytes, bucket i
// those from 1<<(i-1) to 1<<i - 1. The last bucket also counts all larger sizes.
type SizeCounts [SizeBuckets]uint64

func (c *SizeCounts) add(n int) { c[min(bits.Len(uint(n)), SizeBuckets-1)]++ }

// Sizes counts the sizes of a connection's RPC messages, including RPC headers and items in
// chunks.
type Sizes struct {
	Calls, Replies SizeCounts
}

// Add adds the counts of another connection.
func (s *Sizes) Add(o *Sizes) {
	for i := range s.Calls {
		s.Calls[i] += o.Calls[i]
		s.Replies[i] += o.Replies[i]
	}
}

// Sizes returns the sizes of the connection's messages so far.
func (l *link) Sizes() Sizes {
	l.mu.look()
	defer l.mu.Unlock()
	return l.sizes
}

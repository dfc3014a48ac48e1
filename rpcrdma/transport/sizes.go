package transport

import "math/bits"

// SizeBuckets is the number of buckets of a SizeCounts. The largest message,
// conn.MaxMessage, falls into the last but two.
const SizeBuckets = 24

// SizeCounts counts sizes by powers of two: bucket 0 those of 0 bytes, bucket
// i those from 1<<(i-1) to 1<<i - 1; the last has all larger ones, too.
type SizeCounts [SizeBuckets]uint64

func (c *SizeCounts) add(n int) { c[min(bits.Len(uint(n)), SizeBuckets-1)]++ }

// Sizes are the sizes of a connection's RPC messages, headers of RPC and items
// in chunks included.
type Sizes struct {
	Calls, Replies SizeCounts
}

// Add adds what another connection counted.
func (s *Sizes) Add(o *Sizes) {
	for i := range s.Calls {
		s.Calls[i] += o.Calls[i]
		s.Replies[i] += o.Replies[i]
	}
}

// Sizes are the sizes of the connection's messages so far.
func (l *link) Sizes() Sizes {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sizes
}

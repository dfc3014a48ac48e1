package rpctcp

// keepSmall is the largest storage of a stream, in bytes, that an idle call keeps. The
// headers and results of most calls are shorter.
const keepSmall = 1 << 10

// mostSpares is how many large storages a server keeps for its next calls. No pool counts
// them.
const mostSpares = 16

// Spares are storages of large streams that no call uses. All connections of a server share
// them, so that an idle connection keeps none. There are at most mostSpares, each of at most
// the size given to NewSpares. The garbage collector gets further ones, and spares that are too
// short for their call, so that the kept ones grow to the size that calls need. All methods may
// be called from any goroutine.
type Spares struct {
	most int
	free chan []byte
}

// NewSpares returns spares of up to most bytes each.
func NewSpares(most int) Spares { return Spares{most, make(chan []byte, mostSpares)} }

// Take returns an empty stream: one of the spares, or own if there is none.
func (s Spares) Take(own []byte) []byte {
	select {
	case b := <-s.free:
		return b
	default:
		return own[:0]
	}
}

// Keep returns the storage that an idle call keeps of own and of b, which it has used: small
// storage only. Large storage of b is for any next call. The caller must not use b any more.
func (s Spares) Keep(own, b []byte) []byte {
	switch n := cap(b); {
	case n <= cap(own):
		return own[:0]
	case n <= keepSmall:
		return b[:0]
	case n <= s.most:
		select {
		case s.free <- b[:0]:
		default: // enough are there
		}
	}
	return own[:0]
}

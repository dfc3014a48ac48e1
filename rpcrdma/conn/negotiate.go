package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrNoVersion means that the peer speaks no version that the settings let us
// speak with it.
var ErrNoVersion = errors.New("conn: no common version")

// FirstMessageMax is the most bytes of the first message of a connection, which
// a peer that speaks version 1 alone has to take, too (version two §5).
const FirstMessageMax = InlineMin

// versions are those that the settings let a connection begin with.
func (s *Settings) versions() versions {
	switch {
	case s.Extensions.Has(ExtV2Only):
		return speaks2
	case s.Extensions.Has(ExtV2):
		return speaksAll
	}
	return speaks1
}

// Receives is the size of the receive buffers to post, in bytes: version 2 asks
// for at least 4096 of everybody.
func (s *Settings) Receives() uint32 {
	if s.versions().has(rpcrdma2.Version) {
		return max(s.InlineReceiveSize, rpcrdma2.DefaultReceiveSize)
	}
	return s.InlineReceiveSize
}

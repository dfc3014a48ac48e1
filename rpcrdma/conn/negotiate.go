package conn

import "errors"

// ErrNoVersion means that the peer speaks no version that the settings let us
// speak with it.
var ErrNoVersion = errors.New("conn: no common version")

// FirstMessageMax is the most bytes of the first message of a connection, which
// a peer that speaks version 1 alone has to take, too (version two §5).
const FirstMessageMax = InlineMin

// versionsOf are those that settings let a connection begin with.
func versionsOf(s *Settings) versions {
	switch {
	case s.Extensions.Has(ExtV2Only):
		return speaks2
	case s.Extensions.Has(ExtV2):
		return speaksAll
	}
	return speaks1
}

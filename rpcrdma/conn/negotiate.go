package conn

import "errors"

// ErrNoVersion means that the peer speaks no version that the settings allow.
var ErrNoVersion = errors.New("conn: no common version")

// FirstMessageMax is the largest first message of a connection, in bytes. A peer that
// speaks only version 1 has to accept it (version two §5).
const FirstMessageMax = InlineMin

// versionsOf returns the versions with which the settings let a connection begin.
func versionsOf(s *Settings) versions {
	switch {
	case s.Extensions.Has(ExtV2Only):
		return speaks2
	case s.Extensions.Has(ExtV2):
		return speaksAll
	}
	return speaks1
}

package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// ErrNoVersion means that the peer speaks no version that the settings allow.
var ErrNoVersion = errors.New("conn: no common version")

// FirstMessageMax is the largest first message of a connection, in bytes. A peer that
// speaks only version 1 has to accept it (version two §5).
const FirstMessageMax = settings.InlineMin

// versionsOf returns the versions with which the settings let a connection begin.
func versionsOf(s *settings.Settings) versions {
	switch {
	case s.Extensions.Has(settings.ExtV2Only):
		return speaks2
	case s.Extensions.Has(settings.ExtV2):
		return speaksAll
	}
	return speaks1
}

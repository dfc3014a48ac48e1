// Package audit records who changed what, in an append-only file of JSON lines. An entry is on
// the disk before the change is made. Each entry has a hash of the one before it, so that
// Verify detects a changed log.
//
// The log has two entries for an accepted request: when it begins, and when it is done. A
// request whose first entry cannot be written does not begin. If rdmad ends before a request is
// done, the next Open records the outcome Unknown for it.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"
)

// Outcomes other than gRPC codes.
const (
	// Started is a request that is being carried out, such as a stream.
	Started = "STARTED"
	// Unknown is a request that began and whose end is not recorded, because rdmad ended
	// before.
	Unknown = "UNKNOWN"
	// OK is a request that was carried out.
	OK = "OK"
)

// Entry is one request, or one action of rdmad itself.
type Entry struct {
	Sequence uint64    `json:"sequence"` // from 1, without a gap in the file
	Time     time.Time `json:"time"`
	// Of is the sequence of the entry for the beginning; 0 for requests that were refused.
	Of       uint64 `json:"of,omitempty"`
	Actor    string `json:"actor"`
	Role     string `json:"role"`
	Origin   string `json:"origin"`
	Action   string `json:"action"`
	Request  string `json:"request,omitempty"` // JSON
	Before   string `json:"before,omitempty"`
	After    string `json:"after,omitempty"`
	Outcome  string `json:"outcome"` // OK, Started, Unknown, or why it was refused, as a gRPC code
	Reason   string `json:"reason,omitempty"`
	Revision uint32 `json:"revision,omitempty"`
	// Previous is the hash of the line before, in hexadecimal.
	Previous string `json:"previous"`
}

// maxText bounds each of request, before, after and reason in an entry, in
// bytes, so that large requests can't push everything else out of the log.
const maxText = 16 << 10

// Bounded returns s. If s is too long, it returns the beginning of s, with the size and hash of
// the whole.
func Bounded(s string) string { return bound(s, maxText) }

func bound(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%s... (%d bytes, SHA-256 %s)", s[:cut], len(s), hex.EncodeToString(sum[:]))
}

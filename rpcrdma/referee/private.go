package referee

import "encoding/binary"

// CM private data (RFC 8797 §4).
const (
	privateMagic   = 0xf6ab0e18
	privateSize    = 8
	privateVersion = 1
	flagInvalidate = 0x01
	defaultInline  = 1024 // RFC 8166 §3.3.3
	sizeUnit       = 1024
)

// told is the content of a side's CM private data.
type told struct {
	known         bool // Connect was called
	invalidate    bool
	send, receive int
}

func (t told) summary() Told {
	return Told{Known: t.known, RemoteInvalidation: t.invalidate, SendSize: t.send, ReceiveSize: t.receive}
}

// private decodes a side's private data. Data that is missing, too short or has
// another magic or version counts as none (RFC 8797 §5.1).
func (r *Referee) private(by Side, b []byte) told {
	t := told{known: true, send: defaultInline, receive: defaultInline}
	if len(b) < privateSize || binary.BigEndian.Uint32(b) != privateMagic || b[4] != privateVersion {
		return t
	}
	if b[5]&^flagInvalidate != 0 {
		r.report("private.flags", by, "flags are %#02x", b[5])
	}
	t.invalidate = b[5]&flagInvalidate != 0
	t.send, t.receive = (int(b[6])+1)*sizeUnit, (int(b[7])+1)*sizeUnit
	return t
}

// threshold1 returns the largest message of version 1 that a side may send, in
// bytes. It returns 0 if that is not known (RFC 8797 §4.2).
func (r *Referee) threshold1(from Side) int {
	if !r.told[from].known {
		return 0
	}
	return max(min(r.told[from].send, r.told[from.Peer()].receive), r.ccp.limit[from])
}

// mayInvalidate1 reports whether the two sides agreed to remote invalidation,
// or whether that is not known.
func (r *Referee) mayInvalidate1() bool {
	return !r.told[Client].known || r.told[Client].invalidate && r.told[Server].invalidate
}

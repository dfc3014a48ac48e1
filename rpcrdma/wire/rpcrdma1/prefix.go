package rpcrdma1

import "encoding/binary"

// Prefix is the common start of all transport headers of all versions (RFC 8166 §4.2). It
// can be read before the version is known.
type Prefix struct {
	XID     uint32
	Version uint32
	Credits uint32
	Proc    Proc
}

// DecodePrefix reads the prefix. ok is false if b is too short.
func DecodePrefix(b []byte) (p Prefix, ok bool) {
	if len(b) < PrefixSize {
		return Prefix{}, false
	}
	return Prefix{
		XID:     binary.BigEndian.Uint32(b[offXID:]),
		Version: binary.BigEndian.Uint32(b[offVersion:]),
		Credits: binary.BigEndian.Uint32(b[offCredits:]),
		Proc:    Proc(binary.BigEndian.Uint32(b[offProc:])),
	}, true
}

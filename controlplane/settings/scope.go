package settings

import (
	"net/netip"
	"strings"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// ScopeKind is a level of scopes; a higher one is narrower and wins.
type ScopeKind uint8

// The kinds of scopes.
const (
	Global ScopeKind = iota
	Listener
	Peer
	Connection
)

// Scope is a place at which settings are given. Scopes compare with ==. The zero Scope is
// global.
type Scope struct {
	Kind   ScopeKind
	Name   string       // of a Listener; the id of a Connection
	Prefix netip.Prefix // of a Peer: masked, IPv4 never mapped into IPv6
}

// ParseScope parses global, listener/NAME, peer/CIDR (or peer/ADDRESS) or connection/ID. "" is
// global. A CIDR must have no bits beyond its length.
func ParseScope(s string) (Scope, error) {
	kind, rest, _ := strings.Cut(s, "/")
	switch {
	case s == "" || s == "global":
		return Scope{}, nil
	case kind == "listener" && validName(rest):
		return Scope{Kind: Listener, Name: rest}, nil
	case kind == "connection" && validName(rest):
		return Scope{Kind: Connection, Name: rest}, nil
	case kind == "peer":
		prefix, ok := ParsePrefix(rest)
		switch {
		case !ok:
			return Scope{}, live.Invalid("scope", "%q is not an address or CIDR, such as peer/192.0.2.0/24", rest)
		case hostBits(rest):
			return Scope{}, live.Invalid("scope", "%q %s", s, hostBitsText(prefix))
		}
		return Scope{Kind: Peer, Prefix: prefix}, nil
	}
	return Scope{}, live.Invalid("scope", "%q is not one of global, listener/NAME, peer/CIDR and connection/ID", s)
}

// maxName is the longest name of a listener or connection, in bytes.
const maxName = 64

func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f })
}

// ParsePrefix parses an address or CIDR. IPv4 mapped into IPv6 becomes IPv4.
func ParsePrefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// String returns the only spelling of the scope.
func (s Scope) String() string {
	switch s.Kind {
	case Listener:
		return "listener/" + s.Name
	case Peer:
		return "peer/" + s.Prefix.String()
	case Connection:
		return "connection/" + s.Name
	}
	return "global"
}

// Target is a connection, as scopes see it.
type Target struct {
	Listener string
	Peer     netip.Addr
	ID       string
}

// Covers reports whether settings at s apply to t.
func (s Scope) Covers(t Target) bool {
	switch s.Kind {
	case Listener:
		return s.Name == t.Listener
	case Peer:
		return s.Prefix.Contains(plain(t.Peer))
	case Connection:
		return s.Name == t.ID
	}
	return true
}

// plain is a as prefixes know it: no zone, no IPv4 in IPv6.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// MaxPrefixes bounds each list of an Access. The lists are searched for every connection
// request.
const MaxPrefixes = 1024

// Access selects the peers that a listener accepts, by address. Deny has priority. An empty
// Allow means all peers. IPv4 addresses match only IPv4 prefixes, even if the socket reports
// them as IPv4-mapped (RFC 4291 §2.5.5.2). An Access in use must not be changed.
type Access struct {
	Allow []netip.Prefix `mapstructure:"allow" api:"admission.allow" doc:"addresses and CIDRs that may connect; without this key every address may connect"`
	Deny  []netip.Prefix `mapstructure:"deny" api:"admission.deny" doc:"addresses and CIDRs that may not connect, even if allow has them"`
}

// PrefixError means that a prefix is not valid in an Access.
type PrefixError struct{ Prefix, Reason string }

func (e *PrefixError) Error() string { return fmt.Sprintf("%q %s", e.Prefix, e.Reason) }

// AccessError means that a list of an Access is not valid.
type AccessError struct {
	List string // allow or deny
	Err  error
}

func (e *AccessError) Error() string { return e.List + ": " + e.Err.Error() }

func (e *AccessError) Unwrap() error { return e.Err }

// ParsePrefix parses a CIDR or a single address. Prefixes of IPv4-mapped IPv6 addresses
// become IPv4 prefixes. The error is a *PrefixError.
func ParsePrefix(s string) (netip.Prefix, error) {
	var p netip.Prefix
	var err error
	if strings.Contains(s, "/") {
		p, err = netip.ParsePrefix(s)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(s); err == nil && a.Zone() == "" {
			p = netip.PrefixFrom(a, a.BitLen())
		}
	}
	if err != nil || !p.IsValid() {
		return netip.Prefix{}, &PrefixError{s, "is neither an address nor a CIDR such as 192.0.2.0/24 or 2001:db8::/32"}
	}
	return normalPrefix(p)
}

// normalPrefix returns a prefix in the form that Permits compares with.
func normalPrefix(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return netip.Prefix{}, &PrefixError{p.String(), "is no prefix"}
	}
	if m := p.Masked(); m != p {
		return netip.Prefix{}, &PrefixError{p.String(), "has bits set past its length; write " + m.String()}
	}
	if !p.Addr().Is4In6() {
		return p, nil
	}
	const mapped = 96 // bits before the IPv4 address; with fewer, Masked would not be IPv4-mapped
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped), nil
}

// normal returns a checked copy of a. Its errors are *AccessError.
func (a *Access) normal() (*Access, error) {
	out := &Access{Allow: slices.Clone(a.Allow), Deny: slices.Clone(a.Deny)}
	for _, l := range []struct {
		name string
		list []netip.Prefix
	}{{"allow", out.Allow}, {"deny", out.Deny}} {
		if len(l.list) > MaxPrefixes {
			return nil, &AccessError{l.name, fmt.Errorf("%d prefixes, at most %d are taken", len(l.list), MaxPrefixes)}
		}
		for i, p := range l.list {
			n, err := normalPrefix(p)
			if err != nil {
				return nil, &AccessError{l.name, err}
			}
			l.list[i] = n
		}
	}
	return out, nil
}

// CheckAccess checks the access of a listener or connector. The error is an *AccessError.
func CheckAccess(a *Access) error {
	_, err := a.normal()
	return err
}

// Permits reports whether a peer may connect.
func (a *Access) Permits(peer netip.Addr) bool {
	peer = peer.Unmap().WithZone("") // no prefix matches an address with a zone
	contains := func(p netip.Prefix) bool { return p.Contains(peer) }
	if slices.ContainsFunc(a.Deny, contains) {
		return false
	}
	return len(a.Allow) == 0 || slices.ContainsFunc(a.Allow, contains)
}

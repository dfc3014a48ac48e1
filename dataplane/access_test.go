package dataplane

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{"192.0.2.0/24", "192.0.2.0/24", ""},
		{"192.0.2.7", "192.0.2.7/32", ""},
		{"0.0.0.0/0", "0.0.0.0/0", ""},
		{"2001:db8::/32", "2001:db8::/32", ""},
		{"2001:db8::7", "2001:db8::7/128", ""},
		{"::/0", "::/0", ""},
		{"::ffff:192.0.2.7", "192.0.2.7/32", ""},
		{"::ffff:192.0.2.0/120", "192.0.2.0/24", ""},
		{"::ffff:0:0/96", "0.0.0.0/0", ""},
		{"192.0.2.1/24", "", `"192.0.2.1/24" has bits set past its length; write 192.0.2.0/24`},
		{"192.0.2.0/33", "", "neither an address nor a CIDR"},
		{"192.0.2", "", "neither an address nor a CIDR"},
		{"fe80::1%eth0", "", "neither an address nor a CIDR"},
		{"fe80::%eth0/64", "", "neither an address nor a CIDR"},
		{"", "", "neither an address nor a CIDR"},
		{"/8", "", "neither an address nor a CIDR"},
		{"host.example", "", "neither an address nor a CIDR"},
	} {
		got, err := ParsePrefix(c.in)
		if c.err == "" {
			if err != nil || got.String() != c.want {
				t.Errorf("%s: %v, %v, want %s", c.in, got, err, c.want)
			}
			continue
		}
		var e *PrefixError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %s", c.in, err, c.err)
		}
	}
}

func prefixes(t *testing.T, list ...string) (out []netip.Prefix) {
	t.Helper()
	for _, s := range list {
		p, err := ParsePrefix(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestPermits(t *testing.T) {
	for _, c := range []struct {
		name        string
		allow, deny []string
		in, out     []string
	}{
		{"no lists", nil, nil, []string{"192.0.2.1", "::1", "fe80::1%eth0"}, nil},
		{"allow alone", []string{"192.0.2.0/24", "2001:db8::/32"}, nil,
			[]string{"192.0.2.255", "2001:db8::1", "::ffff:192.0.2.1"}, []string{"192.0.3.1", "2001:db9::1", "::ffff:192.0.3.1", "::192.0.2.1"}},
		{"deny alone", nil, []string{"192.0.2.0/24"}, []string{"192.0.3.1", "::1"}, []string{"192.0.2.1", "::ffff:192.0.2.1"}},
		{"deny wins", []string{"192.0.2.0/24"}, []string{"192.0.2.8/29", "10.0.0.0/8"}, []string{"192.0.2.7", "192.0.2.16"}, []string{"192.0.2.8", "192.0.2.15", "10.1.1.1"}},
		{"deny wins when it is wider", []string{"192.0.2.7"}, []string{"0.0.0.0/0"}, nil, []string{"192.0.2.7", "::1"}},
		{"a zone hides nobody", nil, []string{"fe80::/10"}, []string{"2001:db8::1"}, []string{"fe80::1%eth0", "fe80::1"}},
		{"IPv6 says nothing of IPv4", []string{"::/0"}, nil, []string{"::1"}, []string{"127.0.0.1", "::ffff:127.0.0.1"}},
		{"a mapped prefix is IPv4", []string{"::ffff:192.0.2.0/120"}, nil, []string{"192.0.2.1", "::ffff:192.0.2.1"}, []string{"192.0.3.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := (&Access{prefixes(t, c.allow...), prefixes(t, c.deny...)}).normal()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.in {
				if !a.Permits(netip.MustParseAddr(s)) {
					t.Errorf("%s is kept out", s)
				}
			}
			for _, s := range c.out {
				if a.Permits(netip.MustParseAddr(s)) {
					t.Errorf("%s is let in", s)
				}
			}
		})
	}
}

// TestAccessIsNormal gives prefixes that did not come from ParsePrefix.
func TestAccessIsNormal(t *testing.T) {
	a, err := (&Access{Deny: []netip.Prefix{netip.MustParsePrefix("::ffff:192.0.2.0/120")}}).normal()
	if err != nil || a.Permits(netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("a mapped prefix: %+v, %v", a, err)
	}
	for _, bad := range []Access{
		{Allow: []netip.Prefix{{}}},
		{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}},
		{Allow: make([]netip.Prefix, MaxPrefixes+1)},
	} {
		var e *AccessError
		if _, err := bad.normal(); !errors.As(err, &e) || e.List != "allow" {
			t.Errorf("taken, or not told of: %v", err)
		}
	}
}

func TestPermitsAllocatesNothing(t *testing.T) {
	a := &Access{Allow: prefixes(t, "192.0.2.0/24", "2001:db8::/32"), Deny: prefixes(t, "192.0.2.1")}
	peer := netip.MustParseAddr("::ffff:192.0.2.2")
	if n := testing.AllocsPerRun(100, func() { a.Permits(peer) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParsePrefix(f *testing.F) {
	for _, s := range []string{"192.0.2.0/24", "::ffff:192.0.2.0/120", "fe80::1%eth0", "::/0", "1.2.3.4/", "::ffff:0:0/90"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrefix(s)
		if err != nil {
			return
		}
		if again, err := ParsePrefix(p.String()); err != nil || again != p {
			t.Errorf("%q gives %v, and that %v, %v", s, p, again, err)
		}
		a, err := (&Access{Deny: []netip.Prefix{p}}).normal()
		if err != nil || a.Permits(p.Addr()) {
			t.Errorf("%q doesn't keep out %v (%v)", s, p.Addr(), err)
		}
	})
}

package rpcbind

import (
	"net/netip"
	"testing"
)

func TestUniversal(t *testing.T) {
	for _, c := range []struct{ address, universal string }{
		{"127.0.0.1:20049", "127.0.0.1.78.81"},
		{"0.0.0.0:111", "0.0.0.0.0.111"},
		{"255.255.255.255:65535", "255.255.255.255.255.255"},
		{"[::1]:20049", "::1.78.81"},
		{"[::]:0", "::.0.0"},
		{"[2001:db8::1:0]:256", "2001:db8::1:0.1.0"},
		{"[::ffff:192.0.2.1]:2049", "::ffff:192.0.2.1.8.1"},
	} {
		a := netip.MustParseAddrPort(c.address)
		if got := universal(a); got != c.universal {
			t.Errorf("universal(%v) = %q, want %q", a, got, c.universal)
		}
		if got, err := parseUniversal(c.universal); err != nil || got != a {
			t.Errorf("parseUniversal(%q) = %v, %v, want %v", c.universal, got, err, a)
		}
	}
}

func TestNotUniversal(t *testing.T) {
	for _, s := range []string{
		"", ".", "..", "1.2", "127.0.0.1", "127.0.0.1.8", "127.0.0.1.8.256", "127.0.0.1.-1.1", "127.0.0.1.8.",
		"127.0.0.1..8", "127.0.0.1.0x8.1", "/run/rpcbind.sock", "fe80::1%eth0.8.1", "localhost.8.1", "127.0.0.1.8.1 ",
	} {
		if a, err := parseUniversal(s); err == nil {
			t.Errorf("parseUniversal(%q) = %v", s, a)
		}
	}
}

// FuzzParseUniversal reads what it accepts back from its own spelling.
func FuzzParseUniversal(f *testing.F) {
	f.Add("127.0.0.1.78.81")
	f.Add("::.0.111")
	f.Add("fe80::1.1.1")
	f.Add("/run/rpcbind.sock")
	f.Add("0.0.0.0.00.001")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseUniversal(s)
		if err != nil {
			return
		}
		if again, err := parseUniversal(universal(a)); err != nil || again != a {
			t.Errorf("%q is %v, spelt %q, which is %v, %v", s, a, universal(a), again, err)
		}
	})
}

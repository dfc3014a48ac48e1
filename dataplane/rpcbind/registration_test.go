package rpcbind

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestEntries(t *testing.T) {
	mount := func(address string) Registration {
		return Registration{Program: 100005, Version: 3, Transport: TCP, Address: netip.MustParseAddrPort(address)}
	}
	for _, c := range []struct {
		name string
		in   []Registration
		want string // or the error
	}{
		{"none", nil, ""},
		{"IPv4", []Registration{nfs("192.0.2.1:20049")}, "100003 3 rdma 192.0.2.1.78.81 42\n"},
		{"IPv6", []Registration{nfs("[2001:db8::1]:20049")}, "100003 3 rdma6 2001:db8::1.78.81 42\n"},
		{"a zone", []Registration{nfs("[fe80::1%eth0]:20049")}, "100003 3 rdma6 fe80::1.78.81 42\n"},
		{"IPv4 in IPv6", []Registration{nfs("[::ffff:192.0.2.1]:20049")}, "100003 3 rdma 192.0.2.1.78.81 42\n"},
		{"all of IPv4", []Registration{nfs("0.0.0.0:20049")}, "100003 3 rdma 0.0.0.0.78.81 42\n"},
		{"all", []Registration{nfs("[::]:20049"), mount("[::]:20048")},
			"100003 3 rdma6 ::.78.81 42\n100003 3 rdma 0.0.0.0.78.81 42\n100005 3 tcp6 ::.78.80 42\n100005 3 tcp 0.0.0.0.78.80 42\n"},
		{"twice the same", []Registration{mount("127.0.0.1:1"), mount("127.0.0.1:1")}, "100005 3 tcp 127.0.0.1.0.1 42\n"},
		{"both families", []Registration{mount("127.0.0.1:1"), mount("[::1]:1")}, "100005 3 tcp 127.0.0.1.0.1 42\n100005 3 tcp6 ::1.0.1 42\n"},
		{"two addresses", []Registration{mount("127.0.0.1:1"), mount("127.0.0.1:2")},
			"rpcbind: program 100005 version 3 on tcp is to be at 127.0.0.1:1 and at 127.0.0.1:2, but rpcbind holds one address for it: register one of the two"},
		{"one of all and another", []Registration{nfs("[::]:1"), nfs("127.0.0.1:1")},
			"rpcbind: program 100003 version 3 on rdma is to be at 0.0.0.0:1 and at 127.0.0.1:1, but rpcbind holds one address for it: register one of the two"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := entries(c.in, "42")
			var b strings.Builder
			for _, e := range all {
				fmt.Fprintln(&b, e.program, e.version, e.netid, e.address, e.owner)
			}
			if err != nil {
				b.WriteString(err.Error())
			}
			want(t, "entries", b.String(), c.want)
			if _, newErr := New(Config{Registrations: c.in}); (newErr != nil) != (err != nil) {
				t.Errorf("New: %v", newErr)
			}
		})
	}
}

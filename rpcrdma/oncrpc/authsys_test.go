package oncrpc

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

func TestAuthSys(t *testing.T) {
	body := unhex(t, "12345678 00000005 686f7374 31 000000 000003e8 00000064 00000002 00000004 0000001b")
	a := AuthSys{GIDs: []uint32{9, 9, 9}}
	if err := a.Decode(body); err != nil {
		t.Fatal(err)
	}
	if a.Stamp != 0x12345678 || string(a.MachineName) != "host1" || a.UID != 1000 || a.GID != 100 || !slices.Equal(a.GIDs, []uint32{4, 27}) {
		t.Errorf("decoded %+v", a)
	}
	if got := a.Append(nil); !bytes.Equal(got, body) {
		t.Errorf("encoded %x, want %x", got, body)
	}
	for n := range body {
		err := a.Decode(body[:n])
		denied, ok := errors.AsType[*DeniedError](err)
		if !ok || denied.Stat != AuthError || denied.Auth != AuthBadCred {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

func TestAuthSysLimits(t *testing.T) {
	for _, c := range []struct {
		name, gids int
		ok         bool
	}{{MaxMachineName, MaxGIDs, true}, {MaxMachineName + 1, 0, false}, {0, MaxGIDs + 1, false}, {0, 0, true}} {
		want := AuthSys{MachineName: make([]byte, c.name), GIDs: make([]uint32, c.gids)}
		var got AuthSys
		if err := got.Decode(want.Append(nil)); (err == nil) != c.ok {
			t.Errorf("name of %d bytes, %d gids: %v", c.name, c.gids, err)
		}
	}
}

func FuzzAuthSys(f *testing.F) {
	f.Add((&AuthSys{MachineName: []byte("client"), UID: 1, GID: 2, GIDs: []uint32{3, 4}}).Append(nil))
	f.Add((&AuthSys{}).Append(nil))
	f.Add([]byte{})
	var a AuthSys
	f.Fuzz(func(t *testing.T, body []byte) {
		if a.Decode(body) != nil {
			return
		}
		if len(a.GIDs) > MaxGIDs || len(a.MachineName) > MaxMachineName {
			t.Fatalf("over a limit: %+v", a)
		}
		encoded := a.Append(nil)
		var again AuthSys
		if err := again.Decode(encoded); err != nil || len(encoded) > len(body) || !bytes.Equal(again.Append(nil), encoded) {
			t.Fatalf("%+v comes back as %+v, %v", a, again, err)
		}
	})
}

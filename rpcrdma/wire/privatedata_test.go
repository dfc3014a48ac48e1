package wire

import (
	"bytes"
	"math"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

func TestParsePrivateData(t *testing.T) {
	linuxClient := PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
	for _, c := range []struct {
		name string
		data string // hex
		want PrivateData
		ok   bool
	}{
		{"Linux client", "f6ab0e18 01 01 03 03", linuxClient, true},
		{"Linux server", "f6ab0e18 01 00 03 03", PrivateData{SendSize: 4096, ReceiveSize: 4096}, true},
		{"smallest sizes", "f6ab0e18 01 00 00 00", DefaultPrivateData(), true},
		{"largest sizes", "f6ab0e18 01 00 ff ff", PrivateData{SendSize: 256 << 10, ReceiveSize: 256 << 10}, true},
		{"send and receive differ", "f6ab0e18 01 00 07 00", PrivateData{SendSize: 8192, ReceiveSize: 1024}, true},
		{"bytes after the eighth", "f6ab0e18 01 01 03 03 00000000", linuxClient, true},
		{"reserved flags", "f6ab0e18 01 ff 03 03", linuxClient, true},
		{"only reserved flags", "f6ab0e18 01 fe 00 00", DefaultPrivateData(), true},
		{"missing", "", DefaultPrivateData(), false},
		{"short", "f6ab0e18 01 01 03", DefaultPrivateData(), false},
		{"version 0", "f6ab0e18 00 01 03 03", DefaultPrivateData(), false},
		{"version 2", "f6ab0e18 02 01 03 03", DefaultPrivateData(), false},
		{"foreign magic", "f6ab0e19 01 01 03 03", DefaultPrivateData(), false},
		{"magic in the other byte order", "180eabf6 01 01 03 03", DefaultPrivateData(), false},
		{"magic after four foreign bytes", "80018001 f6ab0e18 01 01 03 03", DefaultPrivateData(), false},
		{"magic after one foreign byte", "00 f6ab0e18 01 01 03 03", DefaultPrivateData(), false},
		{"zeros", "00000000 00 00 00 00", DefaultPrivateData(), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := ParsePrivateData(wiretest.Unhex(t, c.data))
			if got != c.want || ok != c.ok {
				t.Errorf("got %+v, %v, want %+v, %v", got, ok, c.want, c.ok)
			}
		})
	}
}

func TestAppendPrivateData(t *testing.T) {
	for _, c := range []struct {
		name string
		data PrivateData
		want string
	}{
		{"Linux client", PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}, "f6ab0e18 01 01 03 03"},
		{"default", DefaultPrivateData(), "f6ab0e18 01 00 00 00"},
		{"below the smallest", PrivateData{SendSize: 0, ReceiveSize: 1023}, "f6ab0e18 01 00 00 00"},
		{"above the largest", PrivateData{SendSize: 256<<10 + 1, ReceiveSize: math.MaxUint32}, "f6ab0e18 01 00 ff ff"},
		{"never more than there is", PrivateData{SendSize: 4095, ReceiveSize: 4097}, "f6ab0e18 01 00 02 03"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := c.data.Append(nil), wiretest.Unhex(t, c.want); !bytes.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
}

func TestEverySizeRoundTrips(t *testing.T) {
	for size := uint32(MinSize); size <= MaxSize; size += SizeUnit {
		want := PrivateData{SendSize: size, ReceiveSize: MaxSize + MinSize - size}
		if got, ok := ParsePrivateData(want.Append(nil)); got != want || !ok {
			t.Fatalf("got %+v, %v, want %+v", got, ok, want)
		}
	}
}

func FuzzParsePrivateData(f *testing.F) {
	f.Add(PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}.Append(nil))
	f.Add(append(DefaultPrivateData().Append(nil), 0, 0))
	f.Add(DefaultPrivateData().Append([]byte{0x80, 0x01, 0x80, 0x01}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePrivateData(b)
		if !ok && p != DefaultPrivateData() {
			t.Fatalf("not private data, yet %+v", p)
		}
		if p.SendSize < MinSize || p.SendSize > MaxSize || p.ReceiveSize < MinSize || p.ReceiveSize > MaxSize {
			t.Fatalf("sizes out of range: %+v", p)
		}
		again, _ := ParsePrivateData(p.Append(nil))
		if again != p {
			t.Fatalf("%+v comes back as %+v", p, again)
		}
	})
}

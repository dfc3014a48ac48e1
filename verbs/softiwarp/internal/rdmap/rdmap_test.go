package rdmap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestControl(t *testing.T) {
	for op := Write; op < numOpcodes; op++ {
		got, err := DecodeControl(Control(op) | 0x30) // reserved bits
		if err != nil || got != op {
			t.Errorf("opcode %d: decoded %d, %v", op, got, err)
		}
		if tagged := op == 0 || op == 2; op.Tagged() != tagged {
			t.Errorf("opcode %d: tagged %v", op, op.Tagged())
		}
		if inv := op == 4 || op == 6; op.Invalidates() != inv {
			t.Errorf("opcode %d: invalidates: %v", op, op.Invalidates())
		}
	}
	for c := range 256 {
		_, err := DecodeControl(uint8(c))
		switch {
		case c>>6 != 1 && !errors.Is(err, ErrVersion), c>>6 == 1 && c&0xf > 7 && !errors.Is(err, ErrOpcode):
			t.Errorf("control %#x: %v", c, err)
		}
	}
}

func TestSendOpcode(t *testing.T) {
	for _, c := range []struct {
		inv, solicited bool
		want           Opcode
	}{{false, false, 3}, {true, false, 4}, {false, true, 5}, {true, true, 6}} {
		if got := SendOpcode(c.inv, c.solicited); got != c.want {
			t.Errorf("invalidate %v, solicited %v: opcode %d", c.inv, c.solicited, got)
		}
	}
}

var readWire = "00000a0b 0000000000001000 00010000 00000c0d 8000000000000004"

var read = Read{SinkSTag: 0xa0b, SinkTO: 0x1000, Size: 0x10000, SrcSTag: 0xc0d, SrcTO: 1<<63 | 4}

func TestRead(t *testing.T) {
	wire := unhex(t, readWire)
	if got := read.Append(nil); !bytes.Equal(got, wire) {
		t.Errorf("encoded %x, want %x", got, wire)
	}
	var got Read
	if n, err := got.Decode(append(wire, 1)); err != nil || n != ReadRequestSize || got != read {
		t.Errorf("decoded %+v from %d bytes, %v", got, n, err)
	}
	for i := range wire {
		if _, err := got.Decode(wire[:i]); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
}

var readHeader = ddp.Header{Last: true, ULP: Control(ReadRequest), QN: ddp.QueueReadRequest, MSN: 5}

var terms = []struct {
	name, wire string
	term       Term
	linux      bool // not what we encode
}{
	{
		"Read refused", "0102e000 002e 4141 00000000 00000001 00000005 00000000" + readWire,
		Term{Fault: AccessRights, HasSegment: true, SegmentLength: 46, HasDDP: true, DDP: readHeader, HasRead: true, Read: read}, false,
	},
	{
		"Read refused, Linux", "10020700 001c 4141 00000000 00000001 00000005 00000000" + readWire,
		Term{Fault: AccessRights, HasSegment: true, SegmentLength: 28, HasDDP: true, DDP: readHeader, HasRead: true, Read: read}, true,
	},
	{
		"Write out of bounds", "1101c000 1000 8140 00000009 0000000000000100",
		Term{Fault: TaggedBaseOrBounds, HasSegment: true, SegmentLength: 4096, HasDDP: true, DDP: ddp.Header{Tagged: true, ULP: 0x40, STag: 9, TO: 256}}, false,
	},
	{
		"Send not expected", "1202c000 0012 4143 00000000 00000000 00000003 00000000",
		Term{Fault: UntaggedNoBuffer, HasSegment: true, SegmentLength: 18, HasDDP: true, DDP: ddp.Header{Last: true, ULP: 0x43, MSN: 3}}, false,
	},
	{
		"Send not expected, Linux", "21020300 0000 4143 00000000 00000000 00000003 00000000",
		Term{Fault: UntaggedNoBuffer, HasSegment: true, HasDDP: true, DDP: ddp.Header{Last: true, ULP: 0x43, MSN: 3}}, true,
	},
	{
		"STag not invalidatable, Linux: R without a Read Request", "10090700 0004 4144 000000aa 00000000 00000002 00000000",
		Term{Fault: STagNotInvalidatable, HasSegment: true, SegmentLength: 4, HasDDP: true, DDP: ddp.Header{Last: true, ULP: 0x44, ULP2: 0xaa, MSN: 2}}, true,
	},
	{"CRC", "20020000", Term{Fault: MPACRC}, false},
	{"CRC, Linux", "02020000", Term{Fault: MPACRC}, true},
	{"local", "00000000", Term{}, false},
	{"headers missing", "0102e000", Term{Fault: AccessRights}, true},
	{"header cut off", "0102e000 0012 4141 00000000", Term{Fault: AccessRights, HasSegment: true, SegmentLength: 18}, true},
	{"undefined codes", "5a770000", Term{Fault: Fault{5, 10, 0x77}}, false},
}

func TestTerm(t *testing.T) {
	for _, c := range terms {
		wire := unhex(t, c.wire)
		var got Term
		if n, err := got.Decode(wire); err != nil || n != len(wire) || got != c.term {
			t.Errorf("%s: decoded %+v from %d of %d bytes, %v", c.name, got, n, len(wire), err)
		}
		if b := c.term.Append(nil); !c.linux && !bytes.Equal(b, wire) {
			t.Errorf("%s: encoded %x, want %x", c.name, b, wire)
		} else if len(b) > MaxTerminateSize {
			t.Errorf("%s: %d bytes", c.name, len(b))
		}
	}
	var got Term
	for i := range terminateControlSize {
		if _, err := got.Decode(make([]byte, i)); !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %v", i, err)
		}
	}
}

// TestTermBothOrders: with a header in it, every defined fault is understood
// in both bit orders.
func TestTermBothOrders(t *testing.T) {
	for f := range reasons {
		term := Term{Fault: f, HasSegment: true, SegmentLength: 18, HasDDP: true, DDP: ddp.Header{Last: true, ULP: 0x43, MSN: 1}}
		rfc := term.Append(nil)
		linux := bytes.Clone(rfc)
		linux[0] = linux[0]<<4 | linux[0]>>4
		linux[2] = 0x03
		for _, wire := range [][]byte{rfc, linux} {
			var got Term
			if _, err := got.Decode(wire); err != nil || got != term {
				t.Errorf("%v: decoded %+v from %x, %v", f, got, wire, err)
			}
		}
	}
}

func TestFaultWords(t *testing.T) {
	if s := AccessRights.String(); s != "access rights violation" {
		t.Errorf("%q", s)
	}
	if f := (Fault{3, 3, 3}); f.Known() || f.String() == "" {
		t.Errorf("undefined fault: known %v, %q", f.Known(), f)
	}
}

func TestAllocations(t *testing.T) {
	buf := make([]byte, 0, MaxTerminateSize)
	var term Term
	var r Read
	if n := testing.AllocsPerRun(100, func() {
		for i := range terms {
			_, _ = term.Decode(terms[i].term.Append(buf))
		}
		_, _ = r.Decode(read.Append(buf))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzTerm(f *testing.F) {
	for _, c := range terms {
		f.Add(unhex(f, c.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var term, again Term
		n, err := term.Decode(b)
		if err != nil {
			return
		}
		if n != len(b) {
			t.Fatalf("took %d of %d bytes", n, len(b))
		}
		if !term.HasSegment && !term.HasDDP {
			// Without headers the two bit orders may not be told apart.
			return
		}
		if _, err := again.Decode(term.Append(nil)); err != nil || again != term {
			t.Fatalf("decoded %+v, then %+v, %v", term, again, err)
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(unhex(f, readWire))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Read
		n, err := r.Decode(b)
		if err != nil {
			if len(b) >= ReadRequestSize {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(r.Append(nil), b[:n]) {
			t.Fatalf("decoded %+v from %x", r, b[:n])
		}
	})
}

func FuzzControl(f *testing.F) {
	f.Add(Control(Write))
	f.Add(uint8(0xff))
	f.Fuzz(func(t *testing.T, c uint8) {
		op, err := DecodeControl(c)
		if err == nil && (Control(op)^c)&^0x30 != 0 {
			t.Fatalf("control %#x: opcode %d", c, op)
		}
	})
}

package mpa

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func TestFPDU(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 14, 18, 1000, MaxULPDU} {
		for _, crc := range []bool{false, true} {
			ulpdu := bytes.Repeat([]byte{0xa5}, n)
			b := AppendFPDU(nil, ulpdu, crc)
			if len(b) != FPDUSize(n) || len(b)%4 != 0 || len(b) > MaxFPDU {
				t.Fatalf("ULPDU of %d: FPDU of %d bytes, FPDUSize says %d", n, len(b), FPDUSize(n))
			}
			got, took, err := DecodeFPDU(append(b, 1, 2, 3), crc)
			if err != nil || took != len(b) || !bytes.Equal(got, ulpdu) {
				t.Fatalf("ULPDU of %d: took %d of %d, %v", n, took, len(b), err)
			}
			for _, short := range []int{0, 1, LengthSize, len(b) / 2, len(b) - 1} {
				if short >= len(b) {
					continue
				}
				_, need, err := DecodeFPDU(b[:short], crc)
				if !errors.Is(err, ErrShort) || (short >= LengthSize && need != len(b)) {
					t.Fatalf("%d of %d bytes: need %d, %v", short, len(b), need, err)
				}
			}
			trailer := AppendTrailer([]byte{9}, n, 0, false)
			if len(trailer) != 1+FPDUSize(n)-LengthSize-n || len(trailer) > 1+MaxTrailer || bytes.Count(trailer[1:], []byte{0}) != len(trailer)-1 {
				t.Fatalf("ULPDU of %d: trailer %x", n, trailer)
			}
		}
	}
}

// TestCRCKnown compares with the vector of RFC 3720 §B.4: 32 bytes of 0 give
// aa 36 91 8a on the wire.
func TestCRCKnown(t *testing.T) {
	b := AppendTrailer(nil, 30, Checksum(0, make([]byte, 32)), true)
	if want := []byte{0xaa, 0x36, 0x91, 0x8a}; !bytes.Equal(b, want) {
		t.Errorf("CRC of 32 zero bytes is %x, want %x", b, want)
	}
}

// TestCRCCovers flips each bit after the length field. With CRC every flip is noticed,
// without CRC none is.
func TestCRCCovers(t *testing.T) {
	good := AppendFPDU(nil, []byte("seventeen bytes.."), true)
	for i := 8 * LengthSize; i < 8*len(good); i++ {
		b := bytes.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if _, n, err := DecodeFPDU(b, true); !errors.Is(err, ErrCRC) || n != len(good) {
			t.Fatalf("bit %d flipped: took %d, %v", i, n, err)
		}
		if _, _, err := DecodeFPDU(b, false); err != nil {
			t.Fatalf("bit %d flipped, CRC off: %v", i, err)
		}
	}
}

// TestChecksumInParts: the sender sums header and payload one after the other.
func TestChecksumInParts(t *testing.T) {
	b := AppendFPDU(nil, []byte("header and payload"), true)
	sum := Checksum(Checksum(0, b[:9]), b[9:LengthSize+18])
	if got := AppendTrailer(nil, 18, sum, true); !bytes.Equal(got, b[LengthSize+18:]) {
		t.Errorf("trailer %x, want %x", got, b[LengthSize+18:])
	}
}

func TestFPDUAllocations(t *testing.T) {
	ulpdu := make([]byte, 4096)
	buf := make([]byte, 0, MaxFPDU)
	if n := testing.AllocsPerRun(100, func() {
		b := AppendFPDU(buf, ulpdu, true)
		if _, _, err := DecodeFPDU(b, true); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per FPDU", n)
	}
}

func FuzzDecodeFPDU(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte{0xff, 0xff, 0}, true)
	f.Add(AppendFPDU(nil, nil, true), true)
	f.Add(AppendFPDU(nil, []byte("some payload"), false), false)
	f.Add(AppendFPDU(AppendFPDU(nil, []byte("one"), true), []byte("two"), true), true)
	f.Fuzz(func(t *testing.T, b []byte, crc bool) {
		ulpdu, n, err := DecodeFPDU(b, crc)
		switch {
		case errors.Is(err, ErrShort):
			if n != 0 && n <= len(b) {
				t.Fatalf("has %d bytes, says it needs %d", len(b), n)
			}
			return
		case n > len(b), n != FPDUSize(int(binary.BigEndian.Uint16(b))):
			t.Fatalf("took %d of %d bytes", n, len(b))
		case err != nil:
			return
		}
		if again := AppendFPDU(nil, ulpdu, crc); crc && len(ulpdu)%4 == 2 && !bytes.Equal(again, b[:n]) {
			t.Fatalf("encoded %x, decoded from %x", again, b[:n])
		}
	})
}

package disk

import (
	"bytes"
	"errors"
	"testing"
)

func block(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func (d *Disk) mustWrite(t *testing.T, b byte, n int, offset int64, fua bool) {
	t.Helper()
	if err := d.write(block(b, n), offset, fua); err != nil {
		t.Fatal(err)
	}
}

// TestAfter writes four sectors, with and without flushes, and checks the medium at
// each moment.
func TestAfter(t *testing.T) {
	d := New(4 * sector)
	d.mustWrite(t, 'a', sector, 0, false)
	d.flush()
	d.mustWrite(t, 'b', sector, sector, false)
	d.mustWrite(t, 'c', sector, 2*sector, true)
	d.mustWrite(t, 'd', sector, 0, false)
	for position, want := range []string{"0000", "0000", "a000", "a000", "a0c0", "a0c0"} {
		got, err := d.After(position, LoseAll, 1)
		if err != nil {
			t.Fatal(err)
		}
		if s := text(got); s != want {
			t.Errorf("at %d: %s, want %s", position, s, want)
		}
	}
	if _, err := d.After(6, LoseAll, 1); err == nil {
		t.Error("a moment that was not yet")
	}
}

// text shows the first byte of each sector, and marks torn sectors.
func text(medium []byte) string {
	var s []byte
	for at := 0; at < len(medium); at += sector {
		c := medium[at]
		if !bytes.Equal(medium[at:at+sector], block(c, sector)) {
			c = '!'
		} else if c == 0 {
			c = '0'
		}
		s = append(s, c)
	}
	return string(s)
}

// TestLosses checks that each outcome that a loss allows occurs, and no other.
func TestLosses(t *testing.T) {
	d := New(3 * sector)
	d.mustWrite(t, 'a', 3*sector, 0, false)
	d.flush()
	d.mustWrite(t, 'b', 2*sector, 0, false)
	d.mustWrite(t, 'c', sector, 2*sector, false)
	for loss, want := range map[Loss][]string{
		LoseAll:     {"aaa"},
		LoseSome:    {"aaa", "bba", "aac", "bbc"},
		LoseSectors: {"aaa", "baa", "aba", "bba", "aac", "bac", "abc", "bbc"},
	} {
		seen := map[string]bool{}
		for seed := range uint64(200) {
			got, err := d.After(d.Position(), loss, seed)
			if err != nil {
				t.Fatal(err)
			}
			seen[text(got)] = true
		}
		for _, s := range want {
			if !seen[s] {
				t.Errorf("loss of %v: never %s", loss, s)
			}
			delete(seen, s)
		}
		if len(seen) != 0 {
			t.Errorf("loss of %v: %v", loss, seen)
		}
	}
}

func TestBounds(t *testing.T) {
	d := New(2 * sector)
	for _, r := range []struct{ n, offset int64 }{{1, 2 * sector}, {sector, -1}, {3 * sector, 0}, {2, 2*sector - 1}, {1, 1<<63 - 1}} {
		if d.write(make([]byte, r.n), r.offset, false) == nil || d.read(make([]byte, r.n), r.offset) == nil {
			t.Errorf("%d bytes at %d", r.n, r.offset)
		}
	}
	d.logged = maxLog - sector + 1
	if err := d.write(make([]byte, sector), 0, false); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

package fh

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func newID(t testing.TB, kind Kind, typ int32, b []byte) ID {
	t.Helper()
	id, ok := NewID(kind, typ, b)
	if !ok {
		t.Fatalf("no ID of %d bytes", len(b))
	}
	return id
}

func newCodec(t testing.TB, key byte, root string) *Codec {
	id := newID(t, Kernel, 1, []byte(root))
	return NewCodec([KeySize]byte{key}, &id)
}

func TestSealAndOpen(t *testing.T) {
	c := newCodec(t, 1, "root")
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.IntRange(0, 255).Draw(t, "kind"))
		typ := int32(rapid.IntRange(0, 65535).Draw(t, "type"))
		b := rapid.SliceOfN(rapid.Byte(), minID, MaxID).Draw(t, "id")
		id, ok := NewID(kind, typ, b)
		if !ok {
			t.Fatal("no ID")
		}
		h := c.Seal(&id)
		if n := len(h.Bytes()); n != headerSize+len(b)+macSize || n > MaxSize {
			t.Fatalf("%d bytes of handle for %d of ID", n, len(b))
		}
		again, ok := FromBytes(h.Bytes())
		if !ok || again != h {
			t.Fatal("the handle does not survive the wire")
		}
		got, err := c.Open(&again)
		if err != nil || got != id || !bytes.Equal(got.Bytes(), b) || got.Kind != kind || int32(got.Type) != typ {
			t.Fatalf("%v, %+v", err, got)
		}
		if other := c.Seal(&id); other != h || other.Sum() != h.Sum() {
			t.Fatal("sealing again gives another handle")
		}
	})
}

func TestIDSizes(t *testing.T) {
	for n, want := range map[int]bool{0: false, 3: false, 4: true, 40: true, 41: false, 128: false} {
		if _, ok := NewID(Kernel, 1, make([]byte, n)); ok != want {
			t.Errorf("%d bytes: %v", n, ok)
		}
	}
	for typ, want := range map[int32]bool{-1: false, 0: true, 65535: true, 65536: false} {
		if _, ok := NewID(Kernel, typ, make([]byte, 8)); ok != want {
			t.Errorf("type %d: %v", typ, ok)
		}
	}
}

// TestForgeries checks that a handle with any changed bit is rejected, and the
// handle of another server, too.
func TestForgeries(t *testing.T) {
	c := newCodec(t, 1, "root")
	id := newID(t, Kernel, 0x81, []byte("twelve bytes"))
	h := c.Seal(&id)
	for i := range len(h.Bytes()) * 8 {
		b := bytes.Clone(h.Bytes())
		b[i/8] ^= 1 << (i % 8)
		forged, ok := FromBytes(b)
		if !ok {
			t.Fatal("size refused")
		}
		want := ErrBad
		if i/8 >= 4 && i/8 < 8 {
			want = ErrForeign
		}
		if _, err := c.Open(&forged); !errors.Is(err, want) {
			t.Errorf("bit %d: %v, want %v", i, err, want)
		}
	}
	for n := range len(h.Bytes()) {
		cut, ok := FromBytes(h.Bytes()[:n])
		if !ok {
			continue
		}
		if _, err := c.Open(&cut); !errors.Is(err, ErrBad) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for name, other := range map[string]*Codec{"key": newCodec(t, 2, "root"), "export": newCodec(t, 1, "toor")} {
		if _, err := other.Open(&h); !errors.Is(err, ErrForeign) {
			t.Errorf("another %s: %v", name, err)
		}
		if other.FSID() == c.FSID() {
			t.Errorf("another %s has the same FSID", name)
		}
	}
	same := newCodec(t, 1, "root")
	if _, err := same.Open(&h); err != nil || same.FSID() != c.FSID() {
		t.Errorf("the same key and export: %v", err)
	}
	var none Handle
	if _, err := c.Open(&none); !errors.Is(err, ErrBad) {
		t.Errorf("no handle: %v", err)
	}
}

func TestSubkeys(t *testing.T) {
	c := newCodec(t, 1, "root")
	a0, a1 := c.Subkey("a")
	b0, b1 := c.Subkey("b")
	if a0 == b0 || a1 == b1 || a0 == a1 {
		t.Error("keys repeat")
	}
	if again, _ := newCodec(t, 1, "root").Subkey("a"); again != a0 {
		t.Error("another key next time")
	}
}

func TestSealDoesNotAllocate(t *testing.T) {
	c := newCodec(t, 1, "root")
	id := newID(t, Kernel, 1, []byte("twelve bytes"))
	h := c.Seal(&id)
	if n := testing.AllocsPerRun(100, func() {
		if got := c.Seal(&id); got != h {
			t.Error("another handle")
		}
		if _, err := c.Open(&h); err != nil {
			t.Error(err)
		}
	}); n > 0 && !raceEnabled {
		t.Errorf("%v allocations", n)
	}
}

func FuzzOpen(f *testing.F) {
	c := newCodec(f, 1, "root")
	for _, n := range []int{minID, 8, 12, 20, MaxID} {
		id := newID(f, Kernel, 1, make([]byte, n))
		h := c.Seal(&id)
		f.Add(h.Bytes())
		f.Add(h.Bytes()[1:])
		f.Add(append(bytes.Clone(h.Bytes()), 0))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := FromBytes(b)
		if !ok {
			if len(b) >= headerSize+minID+macSize && len(b) <= MaxSize {
				t.Fatalf("%d bytes refused", len(b))
			}
			return
		}
		if !bytes.Equal(h.Bytes(), b) {
			t.Fatal("other bytes")
		}
		id, err := c.Open(&h)
		if err != nil {
			return
		}
		if c.Seal(&id) != h {
			t.Fatal("opened what was not sealed")
		}
	})
}

func TestKeyIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a/state")
	var wg sync.WaitGroup
	keys := make([][KeySize]byte, 8)
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = LoadKey(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if key != keys[0] || key == [KeySize]byte{} {
			t.Fatalf("keys differ or are empty: %x, %x", key, keys[0])
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	fi, err := files[0].Info()
	if err != nil || fi.Mode() != 0o600 || fi.Size() != KeySize {
		t.Errorf("%v, %v", fi, err)
	}
	if a, b := NewKey(), NewKey(); a == b {
		t.Error("two new keys are the same")
	}
}

func TestBadKeyFiles(t *testing.T) {
	good := make([]byte, KeySize)
	for name, spoil := range map[string]func(dir, path string) error{
		"readable": func(_, path string) error { return os.WriteFile(path, good, 0o640) },
		"short":    func(_, path string) error { return os.WriteFile(path, good[1:], 0o600) },
		"long":     func(_, path string) error { return os.WriteFile(path, append(good, 0), 0o600) },
		"empty":    func(_, path string) error { return os.WriteFile(path, nil, 0o600) },
		"dir":      func(_, path string) error { return os.Mkdir(path, 0o700) },
		"no dir":   func(dir, _ string) error { _ = os.Remove(dir); return os.WriteFile(dir, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir, filepath.Join(dir, keyFile)); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadKey(dir); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestClaim checks that Claim returns the handle's ID without verifying it.
// Only Open verifies it.
func TestClaim(t *testing.T) {
	c := newCodec(t, 1, "root")
	id := newID(t, Kernel, 7, []byte("0123456789"))
	h := c.Seal(&id)
	if got, ok := h.Claim(); !ok || got != id || got.Hash() != id.Hash() {
		t.Errorf("%+v, %v", got, ok)
	}
	forged := h
	forged.b[forged.n-1] ^= 1
	if got, ok := forged.Claim(); !ok || got != id || forged.Equal(&h) || !h.Equal(&h) {
		t.Errorf("forged: %+v, %v", got, ok)
	}
	if _, err := c.Open(&forged); !errors.Is(err, ErrBad) {
		t.Errorf("forged: %v", err)
	}
	for at := range h.n {
		other := h
		other.b[at] ^= 0x10
		if other.Equal(&h) {
			t.Errorf("equal in spite of byte %d", at)
		}
	}
	longer := h
	longer.n++
	if longer.Equal(&h) {
		t.Error("equal in spite of the length")
	}
	var none Handle
	if _, ok := none.Claim(); ok {
		t.Error("an empty handle claims something")
	}
	seen := map[uint64]bool{}
	for i := range 256 {
		id := newID(t, Kernel, 1, []byte{byte(i), 0, 0, 0, 5, 6, 7, 8, 9})
		seen[id.Hash()%16] = true
	}
	if len(seen) != 16 {
		t.Errorf("256 IDs are spread over %d of 16", len(seen))
	}
}

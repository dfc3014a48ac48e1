package verbstest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// recorder is a TB that keeps the first fatal failure.
type recorder struct {
	TB
	failure string
}

type fatal struct{}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return context.Background() }

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(fatal{})
}

// failure runs a check and gives what it failed with, "" if it did not.
func failure(check func(t TB)) (said string) {
	r := &recorder{}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(fatal); !ok {
				panic(p)
			}
			said = r.failure
		}
	}()
	check(r)
	return ""
}

// Bytes in the wrong place or of another seed look wrong, in blocks of every
// alignment.
func TestFill(t *testing.T) {
	const n = 64 << 10
	a := filled(n, 1)
	if !bytes.Equal(a, filled(n, 1)) {
		t.Fatal("not the same twice")
	}
	if b := filled(n, 2); bytes.Equal(a[:16], b[:16]) || bytes.Equal(a[n-4096:], b[n-4096:]) {
		t.Error("other seeds give the same")
	}
	for off := 1; off <= n/2; off *= 2 {
		if bytes.Equal(a[off:off+4096], a[:4096]) {
			t.Errorf("the same at %d as at 0", off)
		}
	}
	Fill(nil, 1)
}

func TestSameBytes(t *testing.T) {
	for _, c := range []struct {
		got, want, says string
	}{
		{"", "", ""},
		{"same", "same", ""},
		{"sane", "same", "byte 2 of 4 is 0x6e, not 0x6d"},
		{"short", "longer", "5 bytes, not 6"},
	} {
		said := failure(func(t TB) { sameBytes(t, "data", []byte(c.got), []byte(c.want)) })
		if !strings.HasSuffix(said, c.says) || (said == "") != (c.says == "") {
			t.Errorf("%q for %q: says %q", c.got, c.want, said)
		}
	}
}

// Completions that are missing, doubled, swapped or of the wrong status are
// found.
func TestInOrder(t *testing.T) {
	const ok, bad, flushed = verbs.WCSuccess, verbs.WCRemAccessErr, verbs.WCWRFlushErr
	wc := func(id uint64, s verbs.WCStatus) verbs.WC { return verbs.WC{ID: id, Status: s} }
	for name, c := range map[string]struct {
		got  []verbs.WC
		good bool
	}{
		"all well":          {[]verbs.WC{wc(1, ok), wc(2, ok), wc(3, ok)}, true},
		"flushed":           {[]verbs.WC{wc(1, ok), wc(2, flushed), wc(3, flushed)}, true},
		"failed":            {[]verbs.WC{wc(1, ok), wc(2, bad), wc(3, flushed)}, true},
		"success afterward": {[]verbs.WC{wc(1, flushed), wc(2, ok), wc(3, flushed)}, false},
		"two reasons":       {[]verbs.WC{wc(1, bad), wc(2, bad), wc(3, flushed)}, false},
		"missing":           {[]verbs.WC{wc(1, ok), wc(2, ok)}, false},
		"left out":          {[]verbs.WC{wc(1, ok), wc(3, ok)}, false},
		"doubled":           {[]verbs.WC{wc(1, ok), wc(2, ok), wc(2, ok), wc(3, ok)}, false},
		"too many":          {[]verbs.WC{wc(1, ok), wc(2, ok), wc(3, ok), wc(4, ok)}, false},
		"swapped":           {[]verbs.WC{wc(2, ok), wc(1, ok), wc(3, ok)}, false},
	} {
		said := failure(func(t TB) { inOrder(t, "send", c.got, ids(1, 3)) })
		if (said == "") != c.good {
			t.Errorf("%s: %q", name, said)
		}
	}
}

package walk

import (
	"errors"
	"testing"
)

// attrs are text, two words that are reported, and a list; what is for bits
// beyond is not looked at. The third bit is watched.
var attrs = Attributes(2, []*Type{Opaque(NoLimit, 0), Fixed(4), Word(7), Array(NoLimit, Seq(Opaque(NoLimit, 0), Word(8)), 0)}, 1<<2)

// TestAttributes: values are found by their bits, and one that is wrong leaves
// what follows the attributes as it is.
func TestAttributes(t *testing.T) {
	then := Seq(attrs, Word(1))
	for name, c := range map[string]struct {
		body []byte
		want string
		err  error
	}{
		"none":                  {enc(0, 0, 5), "a=5 ", nil},
		"not watched":           {enc(1, 1, "what", 5), "a=5 ", nil},
		"not watched, roundup":  {enc(1, 1, "wha", 5), "a=5 ", nil},
		"alone":                 {enc(1, 4, 4, 9, 5), "g=9 a=5 ", nil},
		"all":                   {enc(1, 15, 28, "text", 1, 9, 1, "", 8, 5), "g=9 h=8 a=5 ", nil},
		"and unknown":           {enc(1, 0x14, 8, 9, 99, 5), "g=9 a=5 ", nil},
		"bits of a second word": {enc(2, 0, 4, 4, 9, 5), "a=5 ", nil},
		"and those":             {enc(2, 4, 4, 8, 9, 99, 5), "g=9 a=5 ", nil},
		"too many words":        {enc(3, 4, 0, 0, 4, 9, 5), "", ErrLimit},
		"no value":              {enc(1, 4, 0, 5), "a=5 ", nil},
		"value cut":             {enc(1, 6, 4, 1, 5), "a=5 ", nil},
		"no whole words":        {enc(1, 4, 3, 9, 5), "a=5 ", nil},
		"text beyond the end":   {enc(1, 5, 12, 20, 1, 9, 5), "a=5 ", nil},
		"text beyond by little": {enc(1, 5, 12, 9, 1, 9, 5), "a=5 ", nil},
		"list beyond the end":   {enc(1, 12, 12, 9, 1, 4, 5), "g=9 a=5 ", nil},
		"list beyond, within":   {enc(1, 12, 16, 9, 2, 0, 8, 5), "g=9 a=5 ", nil},
		"stream ends":           {enc(1, 4, 0), "", ErrShort},
		"set ends":              {enc(2, 4), "", ErrShort},
	} {
		for _, size := range []int{1, 3, 4, 1000} {
			for _, total := range []int{-1, len(c.body)} {
				log, off, err := walkAll(then, c.body, total, size)
				if log != c.want || !errors.Is(err, c.err) || err == nil && off != len(c.body) {
					t.Errorf("%s in pieces of %d, length %d: %q at %d, %v", name, size, total, log, off, err)
				}
			}
		}
	}
}

package walk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func enc(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = xdr.AppendUint32(b, uint32(p))
		case string:
			b = xdr.AppendString(b, p)
		}
	}
	return b
}

// walkAll walks over b in pieces of size bytes and writes down what happens.
func walkAll(t *Type, b []byte, total, size int) (log string, off int, err error) {
	var w Walker
	w.Reset(t, total)
	var s strings.Builder
	for {
		n, ev, err := w.Next(b[:min(size, len(b))])
		b = b[n:]
		switch {
		case err != nil:
			return s.String(), w.Offset(), err
		case ev.Kind == End:
			return s.String(), w.Offset(), nil
		case ev.Kind == More && len(b) == 0:
			return s.String(), w.Offset(), ErrShort
		case ev.Kind == Tagged:
			fmt.Fprintf(&s, "%c=%d ", 'a'+rune(ev.Tag)-1, ev.Value)
		case ev.Kind == AtItem:
			fmt.Fprintf(&s, "item %d at %d ", ev.Value, w.Offset())
		}
	}
}

func TestWalker(t *testing.T) {
	word := Word(1)
	union := Union(2, nil, Arm{0, Seq()}, Arm{3, Fixed(8)}, Arm{10044, word})
	for name, c := range map[string]struct {
		t    *Type
		body []byte
		want string
		err  error
	}{
		"nothing":                {Seq(), nil, "", nil},
		"fixed":                  {Fixed(5), enc(1, 2), "", nil},
		"word":                   {word, enc(7), "a=7 ", nil},
		"mark":                   {Seq(Fixed(4), Mark(3, 9), word), enc(1, 2), "c=9 a=2 ", nil},
		"fixed are joined":       {Seq(Fixed(4), Seq(Fixed(4), Fixed(8)), word), enc(1, 2, 3, 4, 5), "a=5 ", nil},
		"booleans":               {Seq(Bool(), Bool()), enc(0, 1), "", nil},
		"boolean 2":              {Bool(), enc(2), "", ErrBool},
		"opaque":                 {Seq(Opaque(8, 0), word), enc("seven b", 3), "a=3 ", nil},
		"opaque, empty":          {Seq(Opaque(8, 0), word), enc("", 3), "a=3 ", nil},
		"opaque, reported":       {Opaque(8, 2), enc("abc"), "b=3 ", nil},
		"opaque, too long":       {Opaque(2, 0), enc("abc"), "", ErrLimit},
		"opaque, longest":        {Opaque(3, 0), enc("abc"), "", nil},
		"opaque, cut":            {Opaque(NoLimit, 0), enc("abcde")[:8], "", ErrShort},
		"opaque, roundup cut":    {Opaque(NoLimit, 0), enc("abcde")[:11], "", ErrShort},
		"opaque beyond all":      {Opaque(NoLimit, 0), enc(-1), "", ErrLimit},
		"item":                   {Seq(Fixed(4), Item(8), word), enc(0, "abcde", 3), "item 5 at 8 a=3 ", nil},
		"item, empty":            {Seq(Item(8), word), enc("", 3), "item 0 at 4 a=3 ", nil},
		"item, too long":         {Item(4), enc("abcde"), "", ErrLimit},
		"array":                  {Seq(Array(3, word, 2), Fixed(4)), enc(2, 8, 9, 0), "b=2 a=8 a=9 ", nil},
		"array, empty":           {Seq(Array(3, word, 0), word), enc(0, 1), "a=1 ", nil},
		"array of fixed":         {Seq(Array(3, Fixed(8), 0), word), enc(2, 0, 0, 0, 0, 1), "a=1 ", nil},
		"array, too long":        {Array(1, word, 0), enc(2, 8, 9), "", ErrLimit},
		"array beyond all":       {Array(NoLimit, Fixed(16), 0), enc(1 << 29), "", ErrLimit},
		"optional":               {Seq(Optional(word), Optional(word)), enc(0, 1, 5), "a=5 ", nil},
		"optional 2":             {Optional(word), enc(2, 1, 1), "", ErrLimit},
		"list":                   {Seq(List(word), word), enc(1, 5, 1, 6, 0, 7), "a=5 a=6 a=7 ", nil},
		"list, boolean 2":        {List(word), enc(1, 5, 2), "a=5 ", ErrBool},
		"bits":                   {Bits(2, 3, []uint32{1, 10, 100}, 0), enc(2, 3, 1|1<<5), "c=11 c=200 ", nil},
		"bits, none":             {Seq(Bits(2, 3, []uint32{1}, 0), word), enc(0, 1), "a=1 ", nil},
		"bits, too many":         {Bits(1, 3, []uint32{1}, 0), enc(2, 0, 0), "", ErrLimit},
		"bits, watched":          {Bits(2, 3, []uint32{1}, 6), enc(2, 2, 2), fmt.Sprintf("c=%d c=1 ", uint32(Watched|1)), nil},
		"union":                  {Seq(union, word), enc(3, 0, 0, 1), "b=3 a=1 ", nil},
		"union, void arm":        {Seq(union, word), enc(0, 1), "b=0 a=1 ", nil},
		"union, sparse arm":      {union, enc(10044, 1), "b=10044 a=1 ", nil},
		"union, hole":            {union, enc(1), "", ErrUnknown},
		"union, beyond":          {union, enc(500), "", ErrUnknown},
		"union without tag":      {Union(0, nil, Arm{1, word}), enc(0, 0), "", ErrArm},
		"default arm":            {Union(0, word, Arm{1, Seq()}), enc(2, 9), "a=9 ", nil},
		"default arm in a hole":  {Union(0, word, Arm{1, Seq()}), enc(0, 9), "a=9 ", nil},
		"rest":                   {Seq(word, Rest(), word), enc(1, 2, 3), "a=1 ", nil},
		"guess changes no bytes": {Seq(Guess(99, Opaque(NoLimit, 0)), word), enc("abc", 1), "a=1 ", nil},
		"word cut":               {word, enc(1)[:3], "", ErrShort},
	} {
		t.Run(name, func(t *testing.T) {
			for _, total := range []int{-1, len(c.body)} {
				for size := 1; size < len(c.body)+2; size++ {
					log, off, err := walkAll(c.t, c.body, total, size)
					// with the length known, a length beyond the end is seen at once
					if !errors.Is(err, c.err) || log != c.want {
						t.Fatalf("length %d, pieces of %d: %q, %v, want %q, %v", total, size, log, err, c.want, c.err)
					}
					if err == nil && off != len(c.body) && name != "rest" {
						t.Fatalf("length %d, pieces of %d: ended at %d of %d", total, size, off, len(c.body))
					}
				}
			}
		})
	}
}

// TestKnownLength: what can't be in the stream is refused before it is waited
// for.
func TestKnownLength(t *testing.T) {
	for name, c := range map[string]struct {
		t    *Type
		body []byte
	}{
		"opaque":         {Opaque(NoLimit, 0), enc(1000)},
		"array":          {Array(NoLimit, Seq(Bool(), Bool()), 0), enc(11)},
		"array of fixed": {Array(NoLimit, Fixed(8), 0), enc(11)},
		"bits":           {Bits(NoLimit, 1, []uint32{1}, 0), enc(30)},
	} {
		var w Walker
		w.Reset(c.t, len(c.body)+80)
		if _, _, err := w.Next(c.body); !errors.Is(err, ErrShort) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := w.Next(make([]byte, 100)); !errors.Is(err, ErrShort) {
			t.Errorf("%s, again: %v", name, err)
		}
		w.Reset(c.t, -1)
		if _, ev, err := w.Next(c.body); err != nil || ev.Kind != More {
			t.Errorf("%s, length unknown: %v %v", name, ev, err)
		}
	}
}

func TestPassAndApart(t *testing.T) {
	typ := Seq(Item(NoLimit), Item(NoLimit), Word(1))
	var w Walker
	w.Reset(typ, -1)
	if n, ev, err := w.Next(enc(6)); n != 4 || ev.Kind != AtItem || err != nil || w.Pending() != 8 || w.ItemLen() != 6 {
		t.Fatal(n, ev, err, w.Pending())
	}
	w.Pass(5)
	if n, ev, err := w.Next([]byte{0, 0, 0, 0, 0, 0, 5, 1, 2}); n != 7 || ev.Kind != AtItem || err != nil || w.Offset() != 16 || w.ItemLen() != 5 {
		t.Fatal(n, ev, err, w.Offset())
	}
	w.Apart()
	if n, ev, err := w.Next(enc(9)); n != 4 || ev != (Event{Tagged, 1, 9}) || err != nil {
		t.Fatal(n, ev, err)
	}
	if _, ev, _ := w.Next(nil); ev.Kind != End {
		t.Error(ev)
	}
	defer func() {
		if recover() == nil {
			t.Error("passed over what is not pending")
		}
	}()
	w.Pass(1)
}

func TestPadding(t *testing.T) {
	pad := oncrpc.Padding{Align: 16, Thresh: 4, Base: 4}
	body := slices.Concat(enc("abc"), enc(8), make([]byte, pad.Before(12, 8)), []byte("datadata"),
		enc(4), make([]byte, 8), []byte("item"), enc(7))
	if pad.Before(12, 8) != 0 || pad.Before(24, 4) != 4 {
		t.Fatal(pad.Before(12, 8), pad.Before(24, 4))
	}
	body = slices.Delete(body, 24, 28) // 4 bytes before the item, not 8
	var w Walker
	w.Reset(Seq(Opaque(9, 0), Opaque(9, 0), Item(9), Word(1)), -1)
	w.SetPadding(pad)
	n, ev, err := w.Next(body)
	if err != nil || ev.Kind != AtItem || string(body[n:n+4]) != "item" {
		t.Fatal(n, ev, err)
	}
	if _, ev, err = w.Next(body[n:]); err != nil || ev.Value != 7 {
		t.Error(ev, err)
	}
	if want := []Pad{{Off: 24, Len: 4}}; !slices.Equal(w.Pads(), want) {
		t.Errorf("padding at %+v, want %+v", w.Pads(), want)
	}
	if w.Reset(Word(1), -1); len(w.Pads()) != 0 {
		t.Errorf("a new walk has padding at %+v", w.Pads())
	}
}

// TestTooMuchPadding: how often a stream has padding is bounded.
func TestTooMuchPadding(t *testing.T) {
	for _, n := range []int{maxPads, maxPads + 1} {
		body := enc(n)
		for range n {
			body = append(append(body, enc(8)...), make([]byte, 4+8)...)
		}
		var w Walker
		w.Reset(Array(n, Opaque(8, 0), 0), len(body))
		w.SetPadding(oncrpc.Padding{Align: 8, Base: 4})
		_, ev, err := w.Next(body)
		if n <= maxPads && (err != nil || ev.Kind != End) || n > maxPads && !errors.Is(err, ErrLimit) {
			t.Errorf("%d times: %+v, %v", n, ev, err)
		}
	}
}

func TestMax(t *testing.T) {
	for name, c := range map[string]struct {
		t    *Type
		want int
	}{
		"fixed":            {Fixed(5), 8},
		"opaque":           {Opaque(5, 0), 12},
		"opaque, no limit": {Opaque(NoLimit, 0), -1},
		"guess":            {Guess(3, Opaque(NoLimit, 0)), 3},
		"item":             {Item(1000), 4},
		"array":            {Array(3, Fixed(8), 0), 28},
		"array of unknown": {Array(3, Opaque(NoLimit, 0), 0), -1},
		"bits":             {Bits(2, 1, []uint32{0}, 0), 12},
		"list":             {List(Fixed(4)), -1},
		"seq":              {Seq(Fixed(4), Bool(), Word(1), Mark(1, 7)), 12},
		"seq with unknown": {Seq(Fixed(4), Rest()), -1},
		"union":            {Union(0, Fixed(4), Arm{1, Fixed(8)}, Arm{2, Seq()}), 12},
		"union, unknown":   {Union(0, Fixed(4), Arm{1, Rest()}), -1},
	} {
		if got := c.t.Max(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestWrongTablesPanic(t *testing.T) {
	deep := Bool()
	for name, make := range map[string]func(){
		"array of nothing": func() { Array(1, Seq(), 0) },
		"negative mark":    func() { Mark(1, -1) },
		"negative limit":   func() { Opaque(-2, 0) },
		"arm twice":        func() { Union(0, nil, Arm{1, Bool()}, Arm{1, Fixed(4)}) },
		"too deep": func() {
			for range maxDepth {
				deep = Array(1, deep, 0)
			}
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: taken", name)
				}
			}()
			make()
		}()
	}
}

// everything has a bit of all.
var everything = Seq(Word(1), Bool(), Opaque(64, 2), Item(NoLimit), Array(9, Seq(Bool(), Item(8)), 3), List(Fixed(4)),
	Bits(4, 4, []uint32{1, 2, 3}, 4), attrs, Union(5, nil, Arm{0, Seq()}, Arm{1, Item(NoLimit)}, Arm{10044, Optional(Word(6))}))

// FuzzWalker: pieces of any size are walked as the whole, and nothing is read
// beyond what is there.
func FuzzWalker(f *testing.F) {
	f.Add(enc(1, 1, "text", "item", 1, 0, "it", 1, 5, 0, 1, 3, 0, 0, 10044, 1, 9), uint8(3))
	f.Add(enc(1, 0, "", "", 0, 0, 0, 1, 15, 24, "text", 1, 2, 1, "", 6, 0), uint8(1))
	f.Add(enc(1, 0, "", "", 0, 0, 0, 1, 15, 16, "text of", 1, 2, 1, 0), uint8(2))
	f.Add(enc(1, 0, "", "", 0, 0, 0, 1, "abcdefghi"), uint8(7))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		log, off, err := walkAll(everything, b, -1, len(b)+1)
		log2, off2, err2 := walkAll(everything, b, -1, 1+int(size))
		if log != log2 || off != off2 || !errors.Is(err2, err) || off > len(b) {
			t.Fatalf("whole: %q at %d, %v; pieces: %q at %d, %v", log, off, err, log2, off2, err2)
		}
	})
}

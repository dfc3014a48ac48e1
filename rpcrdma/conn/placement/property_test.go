package placement

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestDerived: the structure of receives of every size adds up, and its
// targets are pages of page-aligned memory in which such receives begin at Start.
func TestDerived(t *testing.T) {
	for _, tc := range []struct{ size, plain, pages uint32 }{
		{1024, 0, 0}, {4096, 0, 0}, {5119, 0, 0}, {5120, 1024, 1}, {8192, 4096, 1},
		{9216, 1024, 2}, {33792, 1024, 8}, {65536, 4096, 15}, {256 << 10, 4096, 63},
	} {
		b := Derive(tc.size)
		s, err := Read(&b)
		if err != nil || s.Targets() != int(tc.pages) || s.Room(int(tc.size)) != int(tc.pages)*PageSize {
			t.Fatalf("%d bytes: %d targets of %d bytes, %v", tc.size, s.Targets(), s.Room(int(tc.size)), err)
		}
		if (tc.size >= LeastSize) != (tc.pages > 0) {
			t.Errorf("%d bytes: %d targets", tc.size, tc.pages)
		}
		for i, seg := range s.targets {
			if seg.off != int(tc.plain)+i*PageSize || (Start(int(tc.size))+seg.off)%PageSize != 0 {
				t.Errorf("%d bytes: target %d at %d", tc.size, i, seg.off)
			}
		}
	}
}

// TestForeignStructures: what a peer may tell.
func TestForeignStructures(t *testing.T) {
	target := func(count, length uint32) rpcrdma2.BufferGroup {
		return rpcrdma2.BufferGroup{Count: count, Length: length, Align: 8, Flags: rpcrdma2.TargetableFlag}
	}
	for name, tc := range map[string]struct {
		buf     rpcrdma2.Buffer
		targets int // -1: refused
	}{
		"none":                  {rpcrdma2.Buffer{}, 0},
		"length alone":          {rpcrdma2.Buffer{Length: 1 << 31}, 0},
		"plain":                 {rpcrdma2.Buffer{Length: 4096, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 4096}}}, 0},
		"target first":          {rpcrdma2.Buffer{Length: 8192, Groups: []rpcrdma2.BufferGroup{target(2, 4096)}}, 2},
		"many":                  {rpcrdma2.Buffer{Length: 4 * MaxTargets, Groups: []rpcrdma2.BufferGroup{target(MaxTargets, 4)}}, MaxTargets},
		"too many":              {rpcrdma2.Buffer{Length: 4*MaxTargets + 4, Groups: []rpcrdma2.BufferGroup{target(MaxTargets+1, 4)}}, -1},
		"too many in groups":    {rpcrdma2.Buffer{Length: 4*MaxTargets + 4, Groups: []rpcrdma2.BufferGroup{target(MaxTargets, 4), target(1, 4)}}, -1},
		"counts wrap around":    {rpcrdma2.Buffer{Length: 4096, Groups: []rpcrdma2.BufferGroup{target(1<<31, 2), target(1<<31, 2)}}, -1},
		"most counts":           {rpcrdma2.Buffer{Length: 4096, Groups: []rpcrdma2.BufferGroup{target(1<<32-1, 1<<32-1), target(1<<32-1, 1<<32-1)}}, -1},
		"empty targets":         {rpcrdma2.Buffer{Length: 4096, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 4096}, target(5, 0)}}, -1},
		"no targets of a group": {rpcrdma2.Buffer{Length: 4096, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 4096}, target(0, 0)}}, 0},
		"shorter than said":     {rpcrdma2.Buffer{Length: 4100, Groups: []rpcrdma2.BufferGroup{target(1, 4096)}}, -1},
		"longer than said":      {rpcrdma2.Buffer{Length: 4092, Groups: []rpcrdma2.BufferGroup{target(1, 4096)}}, -1},
		"too long":              {rpcrdma2.Buffer{Length: MaxLength + 4, Groups: []rpcrdma2.BufferGroup{target(1, MaxLength+4)}}, -1},
		"not aligned":           {rpcrdma2.Buffer{Length: 4097, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 1}, target(1, 4096)}}, -1},
		"odd":                   {rpcrdma2.Buffer{Length: 4097, Groups: []rpcrdma2.BufferGroup{target(1, 4097)}}, -1},
	} {
		s, err := Read(&tc.buf)
		if tc.targets < 0 != (err != nil) || (err == nil && s.Targets() != tc.targets) {
			t.Errorf("%s: %d targets, %v", name, s.Targets(), err)
		}
	}
}

// draw makes a structure of a peer.
func draw(rng *rand.Rand) rpcrdma2.Buffer {
	if rng.IntN(3) == 0 {
		return Derive(1024 * uint32(5+rng.IntN(60)))
	}
	var b rpcrdma2.Buffer
	for range 1 + rng.IntN(5) {
		g := rpcrdma2.BufferGroup{Count: uint32(rng.IntN(4)), Length: 4 * uint32(1+rng.IntN(600)), Flags: uint32(rng.IntN(2))}
		b.Length += g.Count * g.Length
		b.Groups = append(b.Groups, g)
	}
	return b
}

// carry builds the Sends of a layout, with the header and the payload stream as
// bytes that no item has, and takes the message apart at the other end.
func carry(t *testing.T, s *Structure, l *Layout, m *Message, items [][]byte) {
	t.Helper()
	var sends [][]byte
	var group []Received
	payload, targets := 0, 0
	for i, tr := range l.Transmissions {
		header := m.Continued
		if i == 0 {
			header = tr.Header
		}
		if tr.Header != header || tr.Length > m.Limit || tr.Header+tr.Payload > tr.Length || tr.Padding() < 0 {
			t.Fatalf("transmission %d: %+v", i, tr)
		}
		send := make([]byte, tr.Length)
		for _, p := range tr.Parts {
			if p.At < tr.Header+tr.Payload {
				t.Fatalf("transmission %d: %+v in the payload", i, p)
			}
			copy(send[p.At:], items[p.Item][p.Off:p.Off+p.Len])
		}
		if len(tr.Parts) > 0 {
			if p := tr.Parts[len(tr.Parts)-1]; p.At+p.Len != tr.Length {
				t.Fatalf("transmission %d: an unused tail is sent", i)
			}
		} else if tr.Padding() != 0 {
			t.Fatalf("transmission %d: padding for nothing", i)
		}
		payload += tr.Payload
		sends, group = append(sends, send), append(group, Received{Header: tr.Header, Payload: tr.Payload, Length: tr.Length})
	}
	if payload != m.Payload || len(sends) > m.Most {
		t.Fatalf("%d bytes of payload of %d in %d transmissions of %d", payload, m.Payload, len(sends), m.Most)
	}
	var r Resolver
	if err := r.Begin(s, group); err != nil {
		t.Fatal(err)
	}
	for i, item := range items {
		it := rpcrdma2.Item{Length: uint32(len(item)), Place: rpcrdma2.TargetBuffer, Targets: l.Targets(i)}
		targets += len(it.Targets)
		spans, err := r.Item(nil, &it)
		if err != nil {
			t.Fatalf("item %d: %v\n%+v\n%+v", i, err, it, group)
		}
		var got []byte
		for _, sp := range spans {
			got = append(got, sends[sp.Transmission][sp.Off:sp.Off+sp.Len]...)
		}
		if !bytes.Equal(got, item) {
			t.Fatalf("item %d: %d bytes differ", i, len(item))
		}
	}
	if want := m.Header + wordSize*targets; l.Transmissions[0].Header != want {
		t.Fatalf("header of %d bytes, want %d", l.Transmissions[0].Header, want)
	}
}

// TestLaidOutIsFound: whatever the structure, what can be laid out is found
// again, byte for byte.
func TestLaidOutIsFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	data := make([]byte, 1<<16) // without zeros, which padding has
	for i := range data {
		data[i] = byte(rng.IntN(255) + 1)
	}
	var l Layout
	laid, groups := 0, 0
	for range 5000 {
		b := draw(rng)
		s, err := Read(&b)
		if err != nil {
			t.Fatalf("%+v: %v", b, err)
		}
		m := Message{
			Header: 4 * (10 + rng.IntN(60)), Continued: 4 * (7 + rng.IntN(4)), Payload: 4 * rng.IntN(1000),
			Limit: 1024 + rng.IntN(int(b.Length)+1024), Most: 1 + rng.IntN(8),
		}
		var items [][]byte
		for range rng.IntN(4) {
			off := rng.IntN(len(data) / 2)
			item := data[off : off+1+rng.IntN(12000)]
			items, m.Items = append(items, item), append(m.Items, len(item))
		}
		if !l.Lay(&s, &m) {
			continue
		}
		laid++
		if len(l.Transmissions) > 1 && len(items) > 0 {
			groups++
		}
		carry(t, &s, &l, &m, items)
	}
	if laid < 500 || groups < 100 {
		t.Errorf("%d laid out, %d groups with items", laid, groups)
	}
}

// TestLaysWhatFits: what fits is not refused, and nothing is sent that need
// not be.
func TestLaysWhatFits(t *testing.T) {
	for name, tc := range map[string]struct {
		size    uint32
		m       Message
		lengths []int // of the transmissions; nil: it does not fit
	}{
		"32 KiB in one":             {33792, Message{Header: 100, Payload: 200, Items: []int{32768}, Limit: 33792, Most: 1}, []int{33792}},
		"and no byte more":          {33792, Message{Header: 100, Payload: 200, Items: []int{32769}, Limit: 33792, Most: 1}, nil},
		"unused tail":               {33792, Message{Header: 100, Payload: 200, Items: []int{4097}, Limit: 33792, Most: 1}, []int{1024 + 4097}},
		"two items":                 {33792, Message{Header: 100, Payload: 200, Items: []int{4000, 5000}, Limit: 33792, Most: 1}, []int{1024 + 4096 + 5000}},
		"payload in the first page": {33792, Message{Header: 100, Payload: 1000, Items: []int{4000}, Limit: 33792, Most: 1}, nil},
		"payload goes on":           {33792, Message{Header: 100, Continued: 40, Payload: 1000, Items: []int{4000}, Limit: 33792, Most: 2}, []int{1024 + 4000, 40 + 1000 - (1024 - 100 - 4)}},
		"both go on":                {9216, Message{Header: 100, Continued: 40, Payload: 1000, Items: []int{10000}, Limit: 9216, Most: 2}, []int{9216, 1024 + 10000 - 8192}},
		"sends that are limited":    {33792, Message{Header: 100, Continued: 40, Payload: 100, Items: []int{6000}, Limit: 6000, Most: 2}, []int{1024 + 4096, 1024 + 6000 - 4096}},
		"one send too many":         {33792, Message{Header: 100, Continued: 40, Payload: 100, Items: []int{10000}, Limit: 6000, Most: 2}, nil},
		"payload too long":          {33792, Message{Header: 100, Continued: 40, Payload: 8060, Limit: 4096, Most: 2}, nil},
		"payload alone":             {0, Message{Header: 100, Continued: 40, Payload: 8000, Limit: 4096, Most: 2}, []int{4096, 4044}},
		"no room for the header":    {33792, Message{Header: 5000, Payload: 8, Limit: 4096, Most: 2}, nil},
		"an empty item":             {33792, Message{Header: 100, Payload: 8, Items: []int{0}, Limit: 4096, Most: 1}, nil},
		"no targets":                {4096, Message{Header: 100, Continued: 40, Payload: 8, Items: []int{4}, Limit: 4096, Most: 8}, nil},
		"more than a header names":  {5120, Message{Header: 100, Continued: 40, Payload: 8, Items: []int{4096 * 40}, Limit: 5120, Most: 64}, nil},
	} {
		b := Derive(tc.size)
		s, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		var l Layout
		var lengths []int
		if l.Lay(&s, &tc.m) {
			for _, tr := range l.Transmissions {
				lengths = append(lengths, tr.Length)
			}
		}
		if len(lengths) != len(tc.lengths) {
			t.Errorf("%s: %v, want %v", name, lengths, tc.lengths)
			continue
		}
		for i := range lengths {
			if lengths[i] != tc.lengths[i] {
				t.Errorf("%s: %v, want %v", name, lengths, tc.lengths)
				break
			}
		}
	}
}

func TestDoesNotAllocate(t *testing.T) {
	b := Derive(33792)
	s, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	var l Layout
	var r Resolver
	m := Message{Header: 100, Continued: 40, Payload: 500, Items: []int{32768, 8192}, Limit: 33792, Most: 4}
	var group []Received
	var spans []Span
	one := func() {
		if !l.Lay(&s, &m) {
			t.Fatal("not laid out")
		}
		group = group[:0]
		for _, tr := range l.Transmissions {
			group = append(group, Received{Header: tr.Header, Payload: tr.Payload, Length: tr.Length})
		}
		if err := r.Begin(&s, group); err != nil {
			t.Fatal(err)
		}
		for i, n := range m.Items {
			it := rpcrdma2.Item{Length: uint32(n), Place: rpcrdma2.TargetBuffer, Targets: l.Targets(i)}
			if spans, err = r.Item(spans[:0], &it); err != nil {
				t.Fatal(err)
			}
		}
	}
	one()
	if n := testing.AllocsPerRun(100, one); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

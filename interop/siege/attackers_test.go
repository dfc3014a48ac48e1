package siege

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/nfstest"
)

// TestNames checks that Find knows each attack, and that each port has enough of
// them.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for i := range Attacks {
		a := &Attacks[i]
		if seen[a.Name] || Find(a.Name) != a || a.Does == "" || a.run == nil {
			t.Errorf("attack %q: twice, not found, or without a description", a.Name)
		}
		seen[a.Name] = true
		if a.Control == Socket && !a.Root {
			t.Errorf("%s: another user is needed on the socket", a.Name)
		}
	}
	if Find("") != nil {
		t.Error("an attack without a name")
	}
	for name, want := range map[string]int{"rdma-": 10, "tcp-": 8, "control-": 10, "metrics-": 3} {
		n := 0
		for s := range seen {
			if strings.HasPrefix(s, name) {
				n++
			}
		}
		if n < want {
			t.Errorf("%d attacks on %s, %d at least", n, name, want)
		}
	}
}

// TestForge checks that most guesses differ from the handles that they are made of,
// and that none is longer than a handle may be.
func TestForge(t *testing.T) {
	root, file := bytes.Repeat([]byte{1}, 40), bytes.Repeat([]byte{2}, nfstest.MaxHandle)
	same := 0
	for range 1000 {
		h := forge(root, file)
		if len(h) > nfstest.MaxHandle {
			t.Fatalf("a handle of %d bytes", len(h))
		}
		if bytes.Equal(h, root) || bytes.Equal(h, file) {
			same++
		}
	}
	if same > 100 {
		t.Errorf("%d of 1000 guesses are good handles", same)
	}
	if root[0] != 1 || file[0] != 2 {
		t.Error("the good handles were changed")
	}
}

// TestResponse checks the segments that answer a Read Request.
func TestResponse(t *testing.T) {
	p := new(peer)
	for size, segments := range map[int]int{0: 1, 1: 1, maxSegment: 1, maxSegment + 1: 2, bulk: bulk / maxSegment} {
		b := p.response(iwarp.ReadRequest{SinkTag: 7, Sink: 100, Size: uint32(size)})
		got, data := 0, 0
		for len(b) > 0 {
			n := int(b[0])<<8 | int(b[1])
			whole := 2 + n + (-(2 + n) & 3) + 4
			if last := b[2]&0x40 != 0; b[2]&0x80 == 0 || b[3] != 0x40|iwarp.OpReadResponse || last != (whole == len(b)) {
				t.Fatalf("%d bytes: segment %x", size, b[2:4])
			}
			got, data = got+1, data+n-iwarp.TaggedSize
			b = b[whole:]
		}
		if got != segments || data != size {
			t.Errorf("%d bytes: %d bytes in %d segments, want %d", size, data, got, segments)
		}
	}
}

package console

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// encode gives a message a size by a field that no type knows.
func encode(t *rapid.T, m proto.Message, unknown int) []byte {
	m.ProtoReflect().SetUnknown(append(proto.Clone(m).ProtoReflect().GetUnknown(), unknownField(unknown)...))
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// unknownField is field 1000 with some bytes.
func unknownField(size int) []byte {
	b := []byte{0xc2, 0x3e} // 1000, bytes
	for n := size; ; n >>= 7 {
		if n < 0x80 {
			b = append(b, byte(n))
			break
		}
		b = append(b, byte(n)|0x80)
	}
	return append(b, make([]byte, size)...)
}

// TestAnswersAreThoseOfTheirBytes: whatever is remembered, the JSON is that of the message's type
// and bytes. An answer that is remembered is found again, and the bounds hold.
func TestAnswersAreThoseOfTheirBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a answers
		size := rapid.SampledFrom([]int{0, leastRemembered, leastRemembered + 1, mostRemembered / 5})
		for range rapid.IntRange(1, 20).Draw(t, "answers") {
			// Equal bytes are a message of each of the types.
			of := rapid.SampledFrom([]proto.Message{&rdmadv1.Rates{}, &rdmadv1.GetConnectionRequest{}, &rdmadv1.ConnectionSample{}}).Draw(t, "type").ProtoReflect().New()
			id := of.Descriptor().Fields().ByNumber(1)
			if n := rapid.IntRange(0, 12).Draw(t, "value"); n > 0 && id.Kind() == protoreflect.StringKind {
				of.Set(id, protoreflect.ValueOfString(fmt.Sprint("c", n)))
			}
			encoded := encode(t, of.Interface(), size.Draw(t, "bytes"))
			got, err := a.json(of.Descriptor(), encoded)
			if err != nil {
				t.Fatal(err)
			}
			want, err := toJSON.Marshal(of.Interface())
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, want %s, %v", got, want, err)
			}
			again, err := a.json(of.Descriptor(), bytes.Clone(encoded))
			if same := err == nil && &again[0] == &got[0]; same != (len(encoded) >= leastRemembered) {
				t.Fatalf("an answer of %d bytes remembered: %v, %v", len(encoded), same, err)
			}
			sum := 0
			for i := range a.last {
				sum += a.last[i].size()
			}
			if sum > mostRemembered || sum != a.size {
				t.Fatalf("%d answers of %d bytes, counted %d", len(a.last), sum, a.size)
			}
		}
	})
}

// TestAnswerThatIsTooLarge: it is not remembered, and neither is what was.
func TestAnswerThatIsTooLarge(t *testing.T) {
	var a answers
	of := (&rdmadv1.Rates{}).ProtoReflect().Descriptor()
	for _, size := range []int{leastRemembered, mostRemembered} {
		if _, err := a.json(of, unknownField(size)); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.last) != 0 || a.size != 0 {
		t.Errorf("%d answers of %d bytes", len(a.last), a.size)
	}
	if _, err := a.json(of, []byte(strings.Repeat("\xff", leastRemembered))); err == nil || len(a.last) != 0 {
		t.Errorf("garbage: %v", err)
	}
}

// TestAnswerIsMadeOnce: browsers that want JSON of the same answer at the same moment wait for one.
func TestAnswerIsMadeOnce(t *testing.T) {
	const browsers = 16
	var m rdmadv1.ListConnectionsResponse
	for i := range 2000 {
		m.Connections = append(m.Connections, &rdmadv1.Connection{Id: fmt.Sprint(i), Peer: "192.0.2.9:1001"})
	}
	encoded, err := proto.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	var a answers
	var texts [browsers][]byte
	var asking sync.WaitGroup
	begin := make(chan struct{})
	for i := range browsers {
		asking.Go(func() {
			own := bytes.Clone(encoded)
			<-begin
			var err error
			if texts[i], err = a.json(m.ProtoReflect().Descriptor(), own); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	asking.Wait()
	for i, text := range texts {
		if len(text) == 0 || &text[0] != &texts[0][0] {
			t.Fatalf("browser %d got JSON of its own", i)
		}
	}
}

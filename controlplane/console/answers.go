package console

import (
	"bytes"
	"slices"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Bounds of what answers remembers.
const (
	leastRemembered = 4 << 10 // bytes of an encoded answer; less is soon encoded again
	mostRemembered  = 8 << 20 // bytes of all, encoded and as JSON
)

// answers makes JSON of encoded answers. It remembers the last large ones, because browsers at the
// same view get the same samples and lists.
type answers struct {
	// making is held while JSON of a large answer is made: browsers that want the same one wait
	// for it, and the data path keeps the other processors.
	making sync.Mutex

	mu   sync.Mutex
	last []remembered // oldest first
	size int          // bytes
}

type remembered struct {
	of            protoreflect.FullName // type of the message
	encoded, json []byte
}

func (r *remembered) size() int { return len(r.encoded) + len(r.json) }

// json returns an encoded message as JSON. Nobody changes either of them afterwards.
func (a *answers) json(of protoreflect.MessageDescriptor, encoded []byte) ([]byte, error) {
	large := len(encoded) >= leastRemembered
	if large {
		a.making.Lock()
		defer a.making.Unlock()
		if text := a.find(of.FullName(), encoded); text != nil {
			return text, nil
		}
	}
	generated, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName()) // costs half of a dynamic one
	if err != nil {
		return nil, err
	}
	m := generated.New().Interface()
	if err := proto.Unmarshal(encoded, m); err != nil {
		return nil, err
	}
	text, err := toJSON.Marshal(m)
	if err == nil && large {
		a.add(remembered{of.FullName(), encoded, text})
	}
	return text, err
}

// toJSON has the names that rdmactl prints, and unset fields.
var toJSON = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}

// find returns the JSON of a message, or nil.
func (a *answers) find(of protoreflect.FullName, encoded []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.last {
		if r := &a.last[i]; r.of == of && bytes.Equal(r.encoded, encoded) {
			return r.json
		}
	}
	return nil
}

// add remembers an answer, and forgets the oldest ones if all are too large.
func (a *answers) add(r remembered) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = append(a.last, r)
	a.size += r.size()
	n := 0
	for ; a.size > mostRemembered; n++ {
		a.size -= a.last[n].size()
	}
	a.last = slices.Delete(a.last, 0, n)
}

// answer is an answer as it came from the control plane.
type answer struct {
	of      protoreflect.MessageDescriptor
	encoded []byte
	answers *answers
}

// codec is gRPC's for protobuf, but leaves answers encoded.
type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, m any) error {
	m.(*answer).encoded = data.Materialize()
	return nil
}

package grpcapi

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// mask says which fields of a message are meant; nil is all.
type mask map[protoreflect.Name]bool

// newReadMask reads a mask of an answer's fields. The error names the first
// path that the answer doesn't have.
func newReadMask(m *fieldmaskpb.FieldMask, of proto.Message) (mask, error) {
	if len(m.GetPaths()) == 0 {
		return nil, nil
	}
	fields := of.ProtoReflect().Descriptor().Fields()
	out := make(mask, len(m.GetPaths()))
	for _, path := range m.GetPaths() {
		if path == "*" {
			return nil, nil
		}
		if fields.ByName(protoreflect.Name(path)) == nil {
			return nil, invalidField("read_mask", fmt.Sprintf("there is no field %q; there are %s", path, fieldNames(fields)))
		}
		out[protoreflect.Name(path)] = true
	}
	return out, nil
}

func fieldNames(fields protoreflect.FieldDescriptors) string {
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	return strings.Join(names, ", ")
}

// has says whether a field is meant.
func (m mask) has(name protoreflect.Name) bool { return m == nil || m[name] }

// prune takes the fields away that the client didn't ask for.
func (m mask) prune(msg proto.Message) {
	if m == nil {
		return
	}
	reflected := msg.ProtoReflect()
	reflected.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !m[field.Name()] {
			reflected.Clear(field)
		}
		return true
	})
}

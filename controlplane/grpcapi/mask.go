package grpcapi

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// readMask says which fields of an answer a client wants; nil is all.
type readMask map[protoreflect.FieldNumber]bool

// newReadMask reads a mask of m's fields. The error names the first path that
// m doesn't have.
func newReadMask(mask *fieldmaskpb.FieldMask, m proto.Message) (readMask, error) {
	if len(mask.GetPaths()) == 0 {
		return nil, nil
	}
	fields := m.ProtoReflect().Descriptor().Fields()
	out := make(readMask, len(mask.GetPaths()))
	for _, path := range mask.GetPaths() {
		if path == "*" {
			return nil, nil
		}
		field := fields.ByName(protoreflect.Name(path))
		if field == nil {
			return nil, invalidField("read_mask", fmt.Sprintf("there is no field %q; there are %s", path, fieldNames(fields)))
		}
		out[field.Number()] = true
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

// prune takes the fields away that the client didn't ask for.
func (r readMask) prune(m proto.Message) {
	if r == nil {
		return
	}
	reflected := m.ProtoReflect()
	reflected.Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !r[field.Number()] {
			reflected.Clear(field)
		}
		return true
	})
}

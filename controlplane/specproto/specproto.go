// Package specproto encodes specifications of services, listeners and connectors as the API's
// messages and decodes them. The path of a field is the same in both.
package specproto

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Read takes the fields of a specification from a message. A field that is
// absent or zero stays as it is: it has its default.
func Read(m proto.Message, to any) error { return readFields(m, to, "") }

// readFields is Read for a message that is in another one under prefix.
func readFields(m proto.Message, to any, prefix string) error {
	root := reflect.ValueOf(to)
	for f := range spec.Fields(root.Type().Elem()) {
		in, fd := At(m.ProtoReflect(), f.API(), false)
		if fd == nil || !in.Has(fd) {
			continue
		}
		value := f.In(root, true)
		if f.Section() {
			value.Set(reflect.New(f.Type.Elem()))
			continue
		}
		read := ReadValue
		if f.Items() {
			read = readItems
		}
		if err := read(value, in.Get(fd), prefix+f.API()); err != nil {
			return err
		}
	}
	return nil
}

// ReadValue takes the value of one field from a message.
func ReadValue(to reflect.Value, v protoreflect.Value, path string) error {
	switch x := v.Interface().(type) {
	case string:
		to.SetString(x)
	case bool:
		to.SetBool(x)
	case uint32:
		to.SetInt(int64(x))
	case float64:
		to.SetInt(int64(x))
	case protoreflect.Message: // the only message of one value is a time
		to.SetInt(int64(x.Interface().(*durationpb.Duration).AsDuration()))
	case protoreflect.List: // and the only list of values is of prefixes
		list := make([]netip.Prefix, x.Len())
		for i := range list {
			p, err := dataplane.ParsePrefix(x.Get(i).String())
			if err != nil {
				return settings.Invalid(fmt.Sprintf("%s[%d]", path, i), "%v", err)
			}
			list[i] = p
		}
		to.Set(reflect.ValueOf(list))
	}
	return nil
}

// readItems takes a list of specifications from a list of messages.
func readItems(to reflect.Value, v protoreflect.Value, path string) error {
	list := v.List()
	to.Set(reflect.MakeSlice(to.Type(), list.Len(), list.Len()))
	for i := range list.Len() {
		if err := readFields(list.Get(i).Message().Interface(), to.Index(i).Addr().Interface(), fmt.Sprintf("%s[%d].", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// Write puts the fields of a specification that are not zero into a
// message. Values without a field of the message are left out.
func Write(from any, m proto.Message) {
	root := reflect.ValueOf(from)
	for f := range spec.Fields(root.Type().Elem()) {
		value := f.In(root, false)
		if !value.IsValid() || value.IsZero() {
			continue
		}
		in, fd := At(m.ProtoReflect(), f.API(), true)
		switch {
		case fd == nil:
		case f.Section():
			in.Mutable(fd)
		default:
			in.Set(fd, Value(value, in, fd))
		}
	}
}

// Value is the value of a field of a specification as that of a field of a message.
func Value(v reflect.Value, in protoreflect.Message, fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch {
	case fd.IsList():
		list := in.NewField(fd).List()
		for i := range v.Len() {
			if fd.Message() != nil {
				Write(v.Index(i).Addr().Interface(), list.AppendMutable().Message().Interface())
			} else {
				list.Append(protoreflect.ValueOfString(spec.Text(v.Index(i))))
			}
		}
		return protoreflect.ValueOfList(list)
	case fd.Message() != nil:
		return protoreflect.ValueOfMessage(durationpb.New(time.Duration(v.Int())).ProtoReflect())
	case fd.Kind() == protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(v.Int()))
	case fd.Kind() == protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Int()))
	}
	return protoreflect.ValueOf(v.Interface())
}

// At finds the field of a path, and the message that it is in. With make,
// messages on the way to it are made.
func At(m protoreflect.Message, path string, make bool) (protoreflect.Message, protoreflect.FieldDescriptor) {
	name, rest, more := strings.Cut(path, ".")
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	switch {
	case fd == nil || !more:
		return m, fd
	case make:
		return At(m.Mutable(fd).Message(), rest, make)
	case !m.Has(fd):
		return m, nil
	}
	return At(m.Get(fd).Message(), rest, make)
}

// Short is a path without the message that groups the fields of a kind, as operators name the field.
func Short(path string) string {
	for _, group := range []string{"admission.", "nfs.", "forward."} {
		path = strings.TrimPrefix(path, group)
	}
	return path
}

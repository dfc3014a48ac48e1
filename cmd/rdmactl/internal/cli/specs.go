package cli

import (
	"errors"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"time"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// specFlags gives a command a flag for each field of a specification that req has,
// but for its name and what is given otherwise. The field max_connections of req is the flag
// --max-connections.
func specFlags(cmd *cobra.Command, req proto.Message, fields func(func(spec.Field) bool)) {
	for f := range fields {
		in, fd := place(req.ProtoReflect(), f.API())
		if f.Path == "name" || f.Section() || fd == nil {
			continue
		}
		name := strings.ReplaceAll(string(fd.Name()), "_", "-")
		if cmd.Flags().Lookup(name) != nil {
			continue
		}
		value := &specFlag{field: f, in: in, fd: fd}
		flag := &pflag.Flag{Name: name, Usage: usage(&f), Value: value}
		if f.Type.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
		cmd.Flags().AddFlag(flag)
		switch {
		case f.Values() != nil:
			must(cmd.RegisterFlagCompletionFunc(name, fixedValues(f.Values()...)))
		case name == "provider":
			must(cmd.RegisterFlagCompletionFunc(name, fixedValues(providers.Names()...)))
		case name != "path" && name != "service": // the command completes these
			must(cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions))
		}
	}
}

// usage is the field's documentation with its default.
func usage(f *spec.Field) string {
	if f.Default() == "" {
		return f.Doc()
	}
	return f.Doc() + " (default " + f.Default() + ")"
}

// place finds the field of a path, and the message that it is in, which is made.
func place(m protoreflect.Message, path string) (protoreflect.Message, protoreflect.FieldDescriptor) {
	name, rest, more := strings.Cut(path, ".")
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(name))
	if fd == nil || !more {
		return m, fd
	}
	return place(m.Mutable(fd).Message(), rest)
}

// specFlag is a flag that sets a field of a message.
type specFlag struct {
	field spec.Field
	in    protoreflect.Message
	fd    protoreflect.FieldDescriptor
	text  string
}

// String implements pflag.Value.
func (s *specFlag) String() string { return s.text }

// Type implements pflag.Value: it names the value in the help.
func (s *specFlag) Type() string {
	switch {
	case s.fd == nil:
		return ""
	case s.field.Type.Kind() == reflect.Bool:
		return "bool"
	case s.field.Type == reflect.TypeFor[time.Duration]():
		return "duration"
	case s.field.Type == reflect.TypeFor[spec.Size]():
		return "size"
	case s.field.Type.Kind() == reflect.Slice:
		return "strings"
	case s.field.Type.Kind() == reflect.String:
		return "string"
	}
	return "number"
}

// Set implements pflag.Value. Ranges are checked by rdmad, which may be another version.
func (s *specFlag) Set(text string) error {
	s.text = text
	if s.fd.IsList() {
		list := s.in.Mutable(s.fd).List()
		if text == "" {
			return nil
		}
		for one := range strings.SplitSeq(text, ",") {
			list.Append(protoreflect.ValueOfString(strings.TrimSpace(one)))
		}
		return nil
	}
	v, err := spec.Parse(s.field.Type, text)
	if err != nil {
		return err
	}
	switch {
	case s.fd.Message() != nil:
		s.in.Set(s.fd, protoreflect.ValueOfMessage(durationpb.New(time.Duration(v.Int())).ProtoReflect()))
	case s.fd.Kind() == protoreflect.DoubleKind:
		s.in.Set(s.fd, protoreflect.ValueOfFloat64(float64(v.Int())))
	case s.fd.Kind() == protoreflect.Uint32Kind:
		if n := v.Int(); n < 0 || n > 1<<32-1 {
			return errors.New("is out of range")
		}
		s.in.Set(s.fd, protoreflect.ValueOfUint32(uint32(v.Int())))
	default:
		s.in.Set(s.fd, protoreflect.ValueOf(v.Interface()))
	}
	return nil
}

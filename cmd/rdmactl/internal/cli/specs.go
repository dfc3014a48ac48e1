package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// specFlags gives a command a flag for each field of a specification that req has,
// but for its name and what is given otherwise. The field max_connections of req is the flag
// --max-connections. given returns the paths of the fields whose flags the command line has; it
// refuses a command line without one.
func specFlags(cmd *cobra.Command, req proto.Message, fields func(func(spec.Field) bool)) (given func() ([]string, error)) {
	var names, paths []string
	for f := range fields {
		in, fd := specproto.At(req.ProtoReflect(), f.API(), true)
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
		names, paths = append(names, name), append(paths, f.API())
		switch {
		case f.Values() != nil:
			must(cmd.RegisterFlagCompletionFunc(name, fixed(f.Values()...)))
		case name == "provider":
			must(cmd.RegisterFlagCompletionFunc(name, fixed(providers.Names()...)))
		case name == "path":
			must(cmd.MarkFlagFilename(name))
		}
	}
	return func() ([]string, error) { return givenPaths(cmd, names, paths) }
}

// givenPaths are the paths of the flags that the command line has, which must have one.
func givenPaths(cmd *cobra.Command, flags, paths []string) (out []string, err error) {
	for i, name := range flags {
		if cmd.Flags().Changed(name) {
			out = append(out, paths[i])
		}
	}
	if out == nil {
		return nil, usagef("%s needs one of --%s", cmd.CommandPath(), strings.Join(flags, ", --"))
	}
	return out, nil
}

// usage is the field's documentation with its default.
func usage(f *spec.Field) string {
	if f.Default() == "" {
		return f.Doc()
	}
	return f.Doc() + " (default " + f.Default() + ")"
}

// specFlag is a flag that sets a field of a message.
type specFlag struct {
	field spec.Field
	in    protoreflect.Message
	fd    protoreflect.FieldDescriptor
	text  string
}

// typeItems is the type of flags with lists of groups of fields.
const typeItems = "list"

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
	case s.field.Items():
		return typeItems
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
	if s.field.Items() {
		return s.setItems(text)
	}
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
	if s.fd.Kind() == protoreflect.Uint32Kind {
		if n := v.Int(); n < 0 || n > 1<<32-1 {
			return errors.New("is out of range")
		}
		if n := v.Int(); n == 0 && isUser(&s.field) {
			return errors.New(s.field.Problem(v))
		}
	}
	s.in.Set(s.fd, specproto.Value(v, s.in, s.fd))
	return nil
}

// setItems sets a list of groups of fields, which text has in YAML or JSON, with the keys of
// the configuration file.
func (s *specFlag) setItems(text string) error {
	var items []map[string]any
	if err := yaml.Unmarshal([]byte(text), &items); err != nil {
		return errors.New("is not a list of mappings in YAML or JSON, such as [{networks: [192.0.2.0/24], read_only: on}]")
	}
	list := s.in.Mutable(s.fd).List()
	for _, values := range items {
		if err := knownKeys(values, s.field.Type.Elem()); err != nil {
			return err
		}
		item := reflect.New(s.field.Type.Elem()).Interface()
		if err := spec.Decode(values, item); err != nil {
			return errors.New(strings.Join(strings.Fields(err.Error()), " ")) // it has several lines
		}
		raw, err := json.Marshal(spec.Encode(item))
		if err == nil {
			err = protojson.Unmarshal(raw, list.AppendMutable().Message().Interface()) // the names are the same
		}
		if err != nil {
			return errors.New("is out of range") // all else was right for the specification
		}
	}
	return nil
}

// knownKeys returns an error if a group of fields, or a group in its lists, has a key that the
// type does not have.
func knownKeys(values map[string]any, t reflect.Type) error {
	var known []string
	for f := range spec.Fields(t) {
		known = append(known, f.Path)
		list, _ := values[f.Path].([]any)
		if !f.Items() {
			continue
		}
		for _, item := range list {
			if group, ok := item.(map[string]any); ok {
				if err := knownKeys(group, f.Type.Elem()); err != nil {
					return fmt.Errorf("%s: %w", f.Path, err)
				}
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, key) {
			slices.Sort(known)
			return fmt.Errorf("%s is an unknown key; known here: %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

// isUser reports whether a field has the number of a user or a group. 0 is that of root, not a word
// for the default.
func isUser(f *spec.Field) bool {
	return strings.HasSuffix(f.Path, "anonuid") || strings.HasSuffix(f.Path, "anongid")
}

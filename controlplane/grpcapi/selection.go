package grpcapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// selected is a field of a specification, and its path in a message.
type selected struct {
	spec.Field
	at string
}

// selection are some fields of a specification.
type selection []selected

// admissionPrefix is before the fields that listeners and connectors have in their Admission.
const admissionPrefix = "admission."

// changeable are the fields of a specification that a request of its type can change. Fields of
// sections that the specification does not have are not among them.
func changeable(req proto.Message, now any) (out selection) {
	root, m := reflect.ValueOf(now), req.ProtoReflect().New()
	for f := range spec.Fields(root.Type().Elem()) {
		_, fd := specproto.At(m, f.API(), true)
		if f.Path != "name" && !f.Section() && fd != nil && f.In(root, false).IsValid() {
			out = append(out, selected{f, f.API()})
		}
	}
	return out
}

// named returns the fields at some paths. "*" is all of them, even if there are none, and the path of a
// message all that it has. A path may be short. The error names the request's field.
func (s selection) named(in string, paths []string) (out selection, err error) {
	for _, path := range paths {
		found := s.filter(func(f *selected) bool {
			return path == "*" || f.at == path || specproto.Short(f.at) == path || strings.HasPrefix(f.at, path+".")
		})
		if found == nil && path != "*" {
			return nil, invalidField(in, fmt.Sprintf("there is no field %q; there are %s", path, strings.Join(s.paths(), ", ")))
		}
		out = append(out, found...)
	}
	return out, nil
}

// given returns the fields that a message has. An Admission has all of its fields.
func (s selection) given(m proto.Message) selection {
	return s.filter(func(f *selected) bool {
		in, fd := specproto.At(m.ProtoReflect(), f.at, false)
		return fd != nil && (in.Has(fd) || strings.HasPrefix(f.at, admissionPrefix))
	})
}

func (s selection) filter(wanted func(*selected) bool) (out selection) {
	for i := range s {
		if wanted(&s[i]) {
			out = append(out, s[i])
		}
	}
	return out
}

func (s selection) has(f *spec.Field) bool {
	return slices.ContainsFunc(s, func(o selected) bool { return o.Path == f.Path })
}

func (s selection) paths() []string {
	out := make([]string, len(s))
	for i := range s {
		out[i] = s[i].at
	}
	return out
}

// apiPaths are the paths in messages of the fields of a specification at some paths.
func apiPaths(of any, paths []string) (out []string) {
	for f := range spec.Fields(reflect.TypeOf(of)) {
		if slices.Contains(paths, f.Path) {
			out = append(out, f.API())
		}
	}
	return out
}

package grpcapi

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// path is where a key stands in the Settings message: its dotted name is the
// path of field names.
type path struct{ group, leaf protoreflect.FieldDescriptor }

var paths = func() (all [settings.NumKeys]path) {
	root := (*rdmadv1.Settings)(nil).ProtoReflect().Descriptor()
	for k := range settings.NumKeys {
		group, leaf, _ := strings.Cut(k.String(), ".")
		g := root.Fields().ByName(protoreflect.Name(group))
		all[k] = path{g, g.Message().Fields().ByName(protoreflect.Name(leaf))}
	}
	return all
}()

// required is the field beside extensions.v2 that makes "on" "required".
var required = paths[settings.ExtensionV2].group.Message().Fields().ByName("v2_required")

// fromProto takes the values that are present in m.
func fromProto(m *rdmadv1.Settings) settings.Values {
	var v settings.Values
	r := m.ProtoReflect()
	for k := range settings.NumKeys {
		p := paths[k]
		if !r.Has(p.group) {
			continue
		}
		group := r.Get(p.group).Message()
		if !group.Has(p.leaf) {
			continue
		}
		switch value := group.Get(p.leaf); p.leaf.Kind() {
		case protoreflect.BoolKind:
			v.SetFlag(k, value.Bool())
			if k == settings.ExtensionV2 && value.Bool() && group.Get(required).Bool() {
				v.Set(k, settings.V2Required)
			}
		case protoreflect.EnumKind: // 0 is not a policy; rules refuse it
			v.Set(k, uint32(value.Enum())-1)
		default:
			v.Set(k, uint32(value.Uint()))
		}
	}
	return v
}

// toProto puts the values of v into a message.
func toProto(v *settings.Values) *rdmadv1.Settings {
	m := &rdmadv1.Settings{}
	r := m.ProtoReflect()
	for _, k := range v.Keys().Keys() {
		p := paths[k]
		value, _ := v.Get(k)
		group := r.Mutable(p.group).Message()
		switch p.leaf.Kind() {
		case protoreflect.BoolKind:
			group.Set(p.leaf, protoreflect.ValueOfBool(value != 0))
			if k == settings.ExtensionV2 {
				group.Set(required, protoreflect.ValueOfBool(value == settings.V2Required))
			}
		case protoreflect.EnumKind:
			group.Set(p.leaf, protoreflect.ValueOfEnum(protoreflect.EnumNumber(value+1)))
		default:
			group.Set(p.leaf, protoreflect.ValueOfUint32(value))
		}
	}
	return m
}

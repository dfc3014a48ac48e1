// Package settingsproto encodes values of the live settings as the API's messages and decodes
// them. It uses names: the dotted name of a setting is the path of its field, and the names of
// an enum's values are the choices.
package settingsproto

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	model "github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// place is where a setting stands in the Settings message.
type place struct {
	group, leaf protoreflect.FieldDescriptor
	// further are, of a choice in a bool field, the choices after off and on: each
	// is a bool beside it, called NAME_CHOICE, that is true as well.
	further []protoreflect.FieldDescriptor
}

var places = func() (all [settings.NumKeys]place) {
	root := (*rdmadv1.Settings)(nil).ProtoReflect().Descriptor()
	for k := range settings.NumKeys {
		group, leaf, _ := strings.Cut(k.String(), ".")
		p := place{group: root.Fields().ByName(protoreflect.Name(group))}
		if p.group == nil || p.group.Message().Fields().ByName(protoreflect.Name(leaf)) == nil {
			panic("the API's Settings message has no field " + k.String())
		}
		fields := p.group.Message().Fields()
		p.leaf = fields.ByName(protoreflect.Name(leaf))
		if p.leaf.Kind() == protoreflect.BoolKind {
			for _, choice := range k.Row().Texts()[2:] {
				p.further = append(p.further, fields.ByName(protoreflect.Name(leaf+"_"+choice)))
			}
		}
		all[k] = p
	}
	return all
}()

// Values returns the values that are present in m. An unknown value of an enum is not one of
// the setting's choices.
func Values(m *rdmadv1.Settings) settings.Values {
	var v settings.Values
	r := m.ProtoReflect()
	for k := range settings.NumKeys {
		p := &places[k]
		if r.Has(p.group) {
			if group := r.Get(p.group).Message(); group.Has(p.leaf) {
				v.Set(k, p.value(group))
			}
		}
	}
	return v
}

func (p *place) value(group protoreflect.Message) uint32 {
	value := group.Get(p.leaf)
	switch p.leaf.Kind() {
	case protoreflect.BoolKind:
		if !value.Bool() {
			return 0
		}
		for i, field := range p.further {
			if group.Get(field).Bool() {
				return uint32(i) + 2
			}
		}
		return 1
	case protoreflect.EnumKind: // 0 is not a choice; rules refuse it
		return uint32(value.Enum()) - 1
	}
	return uint32(value.Uint())
}

// dumped is an export of settings, or a request to import one.
type dumped interface {
	GetBase() *rdmadv1.Settings
	GetScopes() []*rdmadv1.ScopeSettings
}

// Dump takes the settings of all scopes out of a message.
func Dump(m dumped) (*model.Dump, error) {
	d := &model.Dump{Base: Values(m.GetBase())}
	for _, one := range m.GetScopes() {
		scope, err := model.ParseScope(one.GetScope())
		if err != nil {
			return nil, err
		}
		d.Scopes = append(d.Scopes, model.ScopeDump{Scope: scope, Values: Values(one.GetSettings())})
	}
	return d, nil
}

// Message returns a message with the values of v.
func Message(v *settings.Values) *rdmadv1.Settings {
	m := &rdmadv1.Settings{}
	r := m.ProtoReflect()
	for _, k := range v.Keys().Keys() {
		p := &places[k]
		p.set(r.Mutable(p.group).Message(), v.Value(k))
	}
	return m
}

func (p *place) set(group protoreflect.Message, value uint32) {
	switch p.leaf.Kind() {
	case protoreflect.BoolKind:
		group.Set(p.leaf, protoreflect.ValueOfBool(value != 0))
		for i, field := range p.further {
			group.Set(field, protoreflect.ValueOfBool(value == uint32(i)+2))
		}
	case protoreflect.EnumKind:
		group.Set(p.leaf, protoreflect.ValueOfEnum(protoreflect.EnumNumber(value+1)))
	default:
		group.Set(p.leaf, protoreflect.ValueOfUint32(value))
	}
}

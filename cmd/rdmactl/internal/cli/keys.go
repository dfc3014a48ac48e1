package cli

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// key is a live setting, found by its dotted name in the Settings message.
type key struct {
	name        string
	group, leaf protoreflect.FieldDescriptor
}

// Version 2 has two fields: whether it is on, and whether version 1 is not.
const (
	version2      = "extensions.v2"
	required      = "required" // as a value
	requiredField = protoreflect.Name("v2_required")
)

// unset as a value takes a setting away from a scope.
const unset = "unset"

// keys are all settings, in the order of the message.
var keys = func() (all []key) {
	groups := (*rdmadv1.Settings)(nil).ProtoReflect().Descriptor().Fields()
	for i := range groups.Len() {
		leaves := groups.Get(i).Message().Fields()
		for j := range leaves.Len() {
			g, l := groups.Get(i), leaves.Get(j)
			if l.Name() == requiredField {
				continue
			}
			all = append(all, key{string(g.Name()) + "." + string(l.Name()), g, l})
		}
	}
	return all
}()

// findKey looks a dotted name up.
func findKey(name string) (key, error) {
	for _, k := range keys {
		if k.name == name {
			return k, nil
		}
	}
	return key{}, usagef("there is no setting %q%s", name, orDidYouMean(name, keyNames(), "; rdmactl settings get lists them"))
}

// checkKeys refuses what is neither a setting nor the first part of some.
func checkKeys(names []string) error {
	for _, name := range names {
		if slices.ContainsFunc(keys, func(k key) bool { return string(k.group.Name()) == name }) {
			continue
		}
		if _, err := findKey(name); err != nil {
			return err
		}
	}
	return nil
}

// keyNames are the names of all settings.
func keyNames() (names []string) {
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// orDidYouMean suggests the nearest name, or says something else.
func orDidYouMean(name string, names []string, otherwise string) string {
	if near := nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return otherwise
}

// nearest is the name that takes the fewest edits to get to, if they are
// few.
func nearest(name string, names []string) string {
	best, at := "", 4
	for _, n := range names {
		if d := distance(name, n); d < at && d < len(n) {
			best, at = n, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// values are what a key can be set to, for completion; nil for numbers.
func (k key) values() []string {
	switch {
	case k.name == version2:
		return []string{"on", "off", required, unset}
	case k.leaf.Kind() == protoreflect.BoolKind:
		return []string{"on", "off", unset}
	case k.leaf.Kind() == protoreflect.EnumKind:
		var names []string
		all := k.leaf.Enum().Values()
		for i := 1; i < all.Len(); i++ { // 0 is "not given"
			names = append(names, strings.ToLower(string(all.Get(i).Name())))
		}
		return append(names, unset)
	}
	return nil
}

// alternatives names what a key can be set to, but unset.
func (k key) alternatives() string {
	all := k.values()
	last := len(all) - 2
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// parse reads a value; ranges are rdmad's to check.
func (k key) parse(s string) (protoreflect.Value, error) {
	switch k.leaf.Kind() {
	case protoreflect.BoolKind:
		switch s {
		case "on", "true":
			return protoreflect.ValueOfBool(true), nil
		case "off", "false":
			return protoreflect.ValueOfBool(false), nil
		}
		return protoreflect.Value{}, usagef("%s=%s: must be %s", k.name, s, k.alternatives())
	case protoreflect.EnumKind:
		if i := slices.Index(k.values(), s); i >= 0 && s != unset {
			return protoreflect.ValueOfEnum(k.leaf.Enum().Values().Get(i + 1).Number()), nil
		}
		return protoreflect.Value{}, usagef("%s=%s: must be %s", k.name, s, k.alternatives())
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return protoreflect.Value{}, usagef("%s=%s: must be a number from 0 to 4294967295", k.name, s)
	}
	return protoreflect.ValueOfUint32(uint32(n)), nil
}

// set puts a value that was typed into a message of settings.
func (k key) set(m protoreflect.Message, text string) error {
	only := k.name == version2 && text == required
	if only {
		text = "on"
	}
	v, err := k.parse(text)
	if err != nil {
		return err
	}
	group := m.Mutable(k.group).Message()
	group.Set(k.leaf, v)
	if k.name == version2 {
		group.Set(k.group.Message().Fields().ByName(requiredField), protoreflect.ValueOfBool(only))
	}
	return nil
}

// parseAssignments reads KEY=VALUE arguments.
func parseAssignments(args []string) (*rdmadv1.Settings, []string, error) {
	m, taken := &rdmadv1.Settings{}, []string(nil)
	seen := make(map[string]bool)
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, nil, usagef("%q is not KEY=VALUE, such as inline.send_max=2048", arg)
		}
		k, err := findKey(name)
		if err != nil {
			return nil, nil, err
		}
		if seen[name] {
			return nil, nil, usagef("%s is given twice", name)
		}
		seen[name] = true
		if value == unset {
			taken = append(taken, name)
			continue
		}
		if err := k.set(m.ProtoReflect(), value); err != nil {
			return nil, nil, err
		}
	}
	return m, taken, nil
}

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectionFields are the fields of a connection, in the message's order.
var connectionFields = func() (names []string) {
	all := (*rdmadv1.Connection)(nil).ProtoReflect().Descriptor().Fields()
	for i := range all.Len() {
		names = append(names, string(all.Get(i).Name()))
	}
	return names
}()

// checkFields refuses what isn't a field of a connection, and what is given
// twice.
func checkFields(fields []string) error {
	for i, f := range fields {
		if !slices.Contains(connectionFields, f) {
			return usagef("--fields: a connection has no field %q%s", f, orDidYouMean(f, connectionFields, "; rdmactl connections list -o json has all fields"))
		}
		if slices.Contains(fields[:i], f) {
			return usagef("--fields: %s is given twice", f)
		}
	}
	return nil
}

// fieldsTable has a column for each field.
func fieldsTable(all []*rdmadv1.Connection, fields []string) *output.Table {
	t := &output.Table{}
	from := make([]protoreflect.FieldDescriptor, 0, len(fields))
	for _, f := range fields {
		d := (*rdmadv1.Connection)(nil).ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(f))
		from = append(from, d)
		t.Columns = append(t.Columns, output.Column{
			Name:  strings.ToUpper(strings.ReplaceAll(f, "_", "-")),
			Right: f == "id" || d.Kind() == protoreflect.DoubleKind || d.Kind() == protoreflect.Uint32Kind,
		})
	}
	for _, c := range all {
		cells := make([]string, len(from))
		for i, d := range from {
			cells[i] = fieldText(c.ProtoReflect().Get(d), d)
		}
		t.Row(cells...)
	}
	return t
}

// fieldText writes a field's value as the other tables do.
func fieldText(v protoreflect.Value, d protoreflect.FieldDescriptor) string {
	switch {
	case d.IsList():
		texts := make([]string, v.List().Len())
		for i := range texts {
			texts[i] = v.List().Get(i).String()
		}
		return strings.Join(texts, ",")
	case d.Kind() == protoreflect.DoubleKind:
		return output.Count(v.Float())
	case d.Kind() == protoreflect.BoolKind:
		return onOff(v.Bool())
	case d.Kind() == protoreflect.EnumKind && d.Enum().Values().ByNumber(v.Enum()) != nil: // a newer rdmad may have others
		return word(string(d.Enum().Values().ByNumber(v.Enum()).Name()))
	case d.Kind() == protoreflect.MessageKind:
		if t, ok := v.Message().Interface().(*timestamppb.Timestamp); ok && v.Message().IsValid() {
			return clock(t)
		}
		return ""
	}
	return fmt.Sprint(v.Interface())
}

// completeFields completes the last of names with commas between them.
func completeFields(_ *cobra.Command, _ []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	return commaList(connectionFields, typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// commaList offers words that aren't typed yet as the next of a list.
func commaList(words []string, typed string) (out []string) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	given := strings.Split(before, ",")
	for _, w := range words {
		name, _, _ := strings.Cut(w, "\t") // its description
		if !slices.Contains(given, name) {
			out = append(out, before+w)
		}
	}
	return out
}

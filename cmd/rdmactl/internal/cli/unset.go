package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// newUpdate makes the command that changes something: its flags are the fields of a
// specification that R has. update sends the request, which has the mask of the fields that
// are given.
func newUpdate[R proto.Message](cmd *cobra.Command, req R, fields func(func(spec.Field) bool), update func(context.Context, R) error) *cobra.Command {
	cmd.Use, cmd.Aliases = "update NAME", []string{"set"}
	given := specFlags(cmd, req, fields)
	wait := deadlineFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		paths, err := given()
		if err != nil {
			return err
		}
		setName(cmd, req, args[0], *wait)
		setField(req, "update_mask", (&fieldmaskpb.FieldMask{Paths: paths}).ProtoReflect())
		return update(cmd.Context(), req)
	}
	return cmd
}

// setName sets what a request is about, and the deadline if the command line has it.
func setName(cmd *cobra.Command, req proto.Message, name string, wait time.Duration) {
	setField(req, "name", name)
	if d := deadline(cmd, wait); d != nil {
		setField(req, "deadline", d.ProtoReflect())
	}
}

// newUnset makes the command that takes changes back. update sends the request.
func newUnset[R proto.Message](what string, complete cobra.CompletionFunc, req R, update func(context.Context, R) error) *cobra.Command {
	return &cobra.Command{
		Use:   "unset NAME [FIELD...]",
		Short: "Give a " + what + " the values of the configuration file back",
		Long: `Take back what "rdmactl ` + what + `s update" changed of a ` + what + ` of the configuration file:
all of it, or only the given fields. A field has the name of the flag that changed it.
The file's values are in force at once.`,
		Example: "  rdmactl " + what + "s unset " + unsetExamples[what],
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, noFiles
			}
			return complete(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			setField(req, "name", args[0])
			list := req.ProtoReflect().Mutable(req.ProtoReflect().Descriptor().Fields().ByName("unset")).List()
			for _, field := range unsetFields(args[1:]) {
				list.Append(protoreflect.ValueOfString(field))
			}
			return update(cmd.Context(), req)
		},
	}
}

var unsetExamples = map[string]string{"listener": "nfs deny", "service": "export", "connector": "out target"}

// unsetFields are the fields of a request that an operator names as their flags; all without names.
func unsetFields(names []string) []string {
	if len(names) == 0 {
		return []string{"*"}
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = fieldOf(strings.TrimPrefix(name, "--"))
	}
	return out
}

// from says whether something is from the configuration file, was added at runtime, or is
// from the file and was changed at runtime.
func from[T interface {
	GetSource() string
	GetChanged() []string
}](of T) string {
	if len(of.GetChanged()) > 0 {
		return of.GetSource() + "+runtime"
	}
	return of.GetSource()
}

// changedRow shows the fields that were changed at runtime, if there are any.
func changedRow(t *output.Table, fields []string) {
	if len(fields) == 0 {
		return
	}
	t.Row("set at runtime", strings.Join(flagNames(fields), ", "))
}

// flagNames are the names of the flags that set fields.
func flagNames(fields []string) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = strings.NewReplacer("_", "-", ".", "-").Replace(specproto.Short(f))
	}
	return names
}

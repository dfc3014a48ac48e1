package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completeWait bounds how long a shell waits for rdmad when completing, unless --timeout was
// typed.
const completeWait = time.Second

const completionHelp = `Print a script that completes commands, settings and connections. To load it:

  bash   source <(rdmactl completion bash)    (with the package bash-completion)
  zsh    rdmactl completion zsh > "${fpath[1]}/_rdmactl"
  fish   rdmactl completion fish > ~/.config/fish/completions/rdmactl.fish`

var shells = map[string]func(*cobra.Command) error{
	"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(root.OutOrStdout(), true) },
	"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(root.OutOrStdout()) },
	"fish": func(root *cobra.Command) error { return root.GenFishCompletion(root.OutOrStdout(), true) },
}

func newCompletion(*app) *cobra.Command {
	return &cobra.Command{
		Use:               "completion SHELL",
		Short:             "Print a completion script for bash, zsh or fish",
		Long:              completionHelp,
		Example:           "  rdmactl completion bash",
		Annotations:       noContext,
		ValidArgsFunction: fixed("bash", "zsh", "fish"),
		RunE: func(cmd *cobra.Command, args []string) error {
			generate := shells[args[0]]
			if generate == nil {
				return usagef("there is no completion for %q, only for bash, zsh and fish", args[0])
			}
			return generate(cmd.Root())
		},
	}
}

// fixed completes an argument or a flag with one of some words.
func fixed(words ...string) cobra.CompletionFunc { return cobra.FixedCompletions(words, noFiles) }

// completeKeys completes names of settings.
func completeKeys(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return slices.DeleteFunc(keyNames(), func(name string) bool { return contains(args, name) }), noFiles
}

// completeAssignments completes KEY= and then VALUE.
func completeAssignments(_ *cobra.Command, args []string, typed string) (out []string, _ cobra.ShellCompDirective) {
	name, _, value := strings.Cut(typed, "=")
	if value {
		k, err := findKey(name)
		if err != nil {
			return nil, noFiles
		}
		for _, v := range values(k) {
			out = append(out, name+"="+v)
		}
		return out, noFiles
	}
	for _, name := range keyNames() {
		if !contains(args, name+"=") {
			out = append(out, name+"=")
		}
	}
	return out, noFiles | cobra.ShellCompDirectiveNoSpace
}

// completeOwnSettings completes the value of --set.
func completeOwnSettings(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	all, d := completeAssignments(cmd, nil, typed)
	return slices.DeleteFunc(all, func(a string) bool { return strings.HasSuffix(a, "="+unset) }), d // there is nothing below the defaults
}

// extensionPrefix is what the settings of extensions begin with.
const extensionPrefix = "extensions."

// extensionNames are the extensions' own names.
func extensionNames() (names []string) {
	for _, key := range keyNames() {
		if name, ok := strings.CutPrefix(key, extensionPrefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// completeExtensions completes NAME….
func completeExtensions(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return slices.DeleteFunc(extensionNames(), func(name string) bool { return slices.Contains(args, name) }), noFiles
}

// contains says whether one of args begins with s.
func contains(args []string, s string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, s) })
}

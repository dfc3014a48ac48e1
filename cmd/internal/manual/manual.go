// Package manual writes the reference of a program from its command line: a manual
// page, and a page of the documentation.
package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is a program to document.
type Program struct {
	Root    *cobra.Command
	Section int
	// Sections are further sections of the manual page, in its language.
	Sections string
}

// commands are all commands that do something, parents first.
func (p *Program) commands() (all []*cobra.Command) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() || c.Name() == "help" {
				continue
			}
			if c.Example != "" || !c.HasSubCommands() {
				all = append(all, c)
			}
			visit(c)
		}
	}
	visit(p.Root)
	return all
}

// use is how to call a command.
func use(cmd *cobra.Command) string { return strings.TrimSuffix(cmd.UseLine(), " [flags]") }

// aliases are the other names of a command. The name of its parent counts, and
// all groups are named.
func aliases(cmd *cobra.Command) string {
	if !cmd.HasParent() || len(cmd.Aliases)+len(cmd.Parent().Aliases) == 0 || !cmd.Parent().HasParent() {
		return ""
	}
	path := []string{append(cmd.Aliases, cmd.Name())[0], append(cmd.Parent().Aliases, cmd.Parent().Name())[0]}
	for c := cmd.Parent().Parent(); c != nil; c = c.Parent() {
		path = append(path, c.Name())
	}
	slices.Reverse(path)
	return strings.Join(path, " ")
}

// flags are those that are not for all commands.
func flags(cmd *cobra.Command) (all []*pflag.Flag) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "version" && !f.Hidden {
			all = append(all, f)
		}
	})
	return all
}

// global are the flags for all commands.
func global(root *cobra.Command) (all []*pflag.Flag) {
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { all = append(all, f) })
	return all
}

// described returns a flag's form, and its meaning with the default.
func described(f *pflag.Flag) (form, meaning string) {
	value, usage := pflag.UnquoteUsage(f)
	form = "--" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + ", " + form
	}
	if value != "" {
		form += " " + value
	}
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return form, usage
	}
	return form, usage + " (default " + f.DefValue + ")"
}

// Man returns the manual page.
func (p *Program) Man() string {
	var b strings.Builder
	name := p.Root.Name()
	fmt.Fprintf(&b, ".\\\" Written by make generate.\n.TH %s %d\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), p.Section, name, Roff(lowerFirst(p.Root.Short)))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.RI [ FLAG \" ...] [\" COMMAND \" [\" ARGUMENT \" ...]]\"\n.SH DESCRIPTION\n", name)
	b.WriteString(paragraphs(p.Root.Long))
	b.WriteString(".SH OPTIONS\n" + manFlags(append(global(p.Root), flags(p.Root)...)))
	b.WriteString(".SH COMMANDS\n")
	for _, c := range p.commands() {
		fmt.Fprintf(&b, ".SS %s\n", Roff(use(c)))
		if long := c.Long; long != "" {
			b.WriteString(paragraphs(long))
		} else {
			fmt.Fprintf(&b, "%s.\n", Roff(c.Short))
		}
		if other := aliases(c); other != "" {
			fmt.Fprintf(&b, ".PP\nAlso: %s\n", Roff(other))
		}
		b.WriteString(manFlags(flags(c)))
		if c.Example != "" {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", Roff(c.Example))
		}
	}
	return b.String() + p.Sections
}

func manFlags(all []*pflag.Flag) string {
	var b strings.Builder
	for _, f := range all {
		form, meaning := described(f)
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", Roff(form), Roff(meaning))
	}
	return b.String()
}

// paragraphs are those of a help text. Indented lines stay lines.
func paragraphs(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(part, " ") || strings.Contains(part, "\n  ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", Roff(part))
		} else {
			fmt.Fprintf(&b, ".PP\n%s\n", Roff(part))
		}
	}
	return b.String()
}

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'", "…", "...", "→", `\(->`)

// Roff escapes text for a manual page.
func Roff(text string) string {
	text = escapes.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}

// links are Markdown's.
var links = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// Plain returns Markdown without its links and marks of code.
func Plain(text string) string {
	return strings.ReplaceAll(links.ReplaceAllString(text, "$1"), "`", "")
}

func lowerFirst(s string) string {
	if s == "" || strings.ToUpper(s[:2]) == s[:2] {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// Markdown returns the sections of a page of the documentation: the flags for all
// commands, and each command.
func (p *Program) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Flags of `%s`\n\n%s", p.Root.Name(), markdownFlags(append(global(p.Root), flags(p.Root)...)))
	for _, c := range p.commands() {
		fmt.Fprintf(&b, "\n## `%s`\n\n", use(c))
		if c.Long != "" {
			fmt.Fprintf(&b, "```text\n%s\n```\n", strings.TrimSpace(c.Long))
		} else {
			fmt.Fprintf(&b, "%s.\n", c.Short)
		}
		if other := aliases(c); other != "" {
			fmt.Fprintf(&b, "\nAlso: `%s`\n", other)
		}
		if all := flags(c); len(all) > 0 {
			b.WriteString("\n" + markdownFlags(all))
		}
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", unindent(c.Example))
		}
	}
	return b.String()
}

func markdownFlags(all []*pflag.Flag) string {
	var b strings.Builder
	b.WriteString("| flag | meaning |\n|---|---|\n")
	for _, f := range all {
		form, meaning := described(f)
		fmt.Fprintf(&b, "| `%s` | %s |\n", form, strings.ReplaceAll(meaning, "|", `\|`))
	}
	return b.String()
}

// unindent removes the two spaces before each line of an example.
func unindent(text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "  "), "\n  ", "\n")
}

package config

import "strings"

// OneLine returns the text of an error on one line, even if it comes from a parser that uses
// several lines: YAML's errors have a heading, and a line for each mistake.
func OneLine(err error) string {
	var out strings.Builder
	for line := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch text := out.String(); {
		case strings.HasSuffix(text, ":"):
			out.WriteByte(' ')
		case text != "":
			out.WriteString("; ")
		}
		out.WriteString(strings.TrimSpace(line))
	}
	return out.String()
}

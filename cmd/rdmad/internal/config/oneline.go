package config

import "strings"

// OneLine returns the text of an error on one line, even if it comes from a parser that uses
// several lines.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

package config

import "strings"

// OneLine is an error for the operator, on one line although it may come from
// a parser that uses several.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

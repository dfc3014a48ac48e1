package configfile

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Origin is the place from which a value comes. The zero value is the default.
type Origin struct {
	File string // with Line, the configuration file
	Line int
	Env  string // the environment variable
	Flag string // the flag, such as --export
}

// String returns "default", FILE:LINE, or the name of the environment variable or the flag.
func (o Origin) String() string {
	switch {
	case o.Flag != "":
		return o.Flag
	case o.Env != "":
		return o.Env
	case o.Line > 0:
		return o.File + ":" + strconv.Itoa(o.Line)
	}
	return "default"
}

// Origins has the origins of values, by dotted name.
type Origins map[string]Origin

// Of returns the origin of a key, or of the nearest section or list around it that has one.
func (o Origins) Of(key string) Origin {
	for at := key; at != ""; at = at[:max(strings.LastIndexAny(at, ".["), 0)] {
		if origin, ok := o[at]; ok {
			return origin
		}
	}
	return Origin{}
}

// Replace forgets a key and everything within it, and gives the key another origin.
func (o Origins) Replace(key string, origin Origin) {
	maps.DeleteFunc(o, func(at string, _ Origin) bool { return within(at, key) })
	o[key] = origin
}

// within says whether a key is another, or in the section or list of its name.
func within(at, key string) bool {
	rest, ok := strings.CutPrefix(at, key)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Error is a mistake in a configuration.
type Error struct {
	Origin
	Key string // such as listeners[0].address; "" when none is to blame
	Msg string
}

func (e *Error) Error() string {
	out := e.File
	if e.Origin != (Origin{File: e.File}) {
		out = e.String()
	}
	for _, part := range []string{visible(e.Key), visible(e.Msg)} {
		if part != "" && out != "" {
			out += ": "
		}
		out += part
	}
	return out
}

// visible writes control characters as Go does: an error is one line.
func visible(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Errors are the mistakes of a configuration, those of the file in the order of its lines.
type Errors []*Error

// Error has a line for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Concern reports whether a key, a section or list around it, or a part of it is wrong.
func (e Errors) Concern(key string) bool {
	return slices.ContainsFunc(e, func(one *Error) bool { return within(key, one.Key) || within(one.Key, key) })
}

// Unwrap lets errors.As find the first mistake.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}

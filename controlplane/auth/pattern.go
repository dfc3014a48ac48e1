package auth

import (
	"errors"
	"strings"
)

// Patterns of certificate names: "*" stands for any text without '.', '/' and
// '@', so that it stays within one part of a host name, URI or address; "**"
// for any text. Everything else stands for itself.
const (
	anyPart = "*"
	anyText = "**"
	borders = "./@"
)

// maxWildcards bounds the work of a match, which grows with their number.
const maxWildcards = 8

// checkPattern says what is wrong with a pattern.
func checkPattern(p string) error {
	switch {
	case p == "":
		return errors.New("is empty")
	case len(p) > maxName:
		return errors.New("is longer than a name may be")
	case strings.Count(p, anyPart) > maxWildcards:
		return errors.New("has too many wildcards")
	}
	return nil
}

// match says whether a pattern stands for a name.
func match(pattern, name string) bool {
	at := strings.Index(pattern, anyPart)
	if at < 0 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, pattern[:at])
	if !ok {
		return false
	}
	tail, whole := strings.CutPrefix(pattern[at:], anyText)
	if !whole {
		tail = pattern[at+len(anyPart):]
	}
	for i := 0; ; i++ {
		if match(tail, rest[i:]) {
			return true
		}
		if i == len(rest) || !whole && strings.IndexByte(borders, rest[i]) >= 0 {
			return false
		}
	}
}

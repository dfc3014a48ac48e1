package configfile

import "bytes"

// maxDepth bounds the levels of a TOML text: a list, a mapping and each name of a dotted key is
// one. rdmad's own keys need ten. The parser calls itself for each level, and has no bound: a text
// of 200 KB would take a gigabyte. Those of YAML and JSON stop at 10,000 levels, which take little.
const maxDepth = 64

// tooDeep returns the line in which a TOML text has more than most levels, or 0. It reads strings
// and comments as the parser does, which stops at the first mistake.
func tooDeep(text []byte, most int) (line int) {
	var open []int // levels of each list and mapping, with its key
	depth, dots := 0, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'':
			i += tomlString(text[i:]) - 1
		case '#':
			i += len(upTo(text[i:], '\n')) - 1
		case ',', '\n':
			dots = 0
		case '.':
			dots++
		case '[', '{':
			open, depth, dots = append(open, dots+1), depth+dots+1, 0
		case ']', '}':
			if last := len(open) - 1; last >= 0 {
				open, depth, dots = open[:last], depth-open[last], 0
			}
		}
		if depth+dots > most {
			return 1 + bytes.Count(text[:i], []byte("\n"))
		}
	}
	return 0
}

// tomlString returns the length of the string at the start of a text, with its quotes. One that does
// not end is as long as its line or, with three quotes, as the text.
func tomlString(text []byte) int {
	quote := text[:1]
	long := len(text) >= 3 && text[1] == quote[0] && text[2] == quote[0]
	n, end := 1, quote
	if long {
		n, end = 3, text[:3]
	}
	for n < len(text) && !bytes.HasPrefix(text[n:], end) {
		switch {
		case text[n] == '\n' && !long:
			return n
		case text[n] == '\\' && quote[0] == '"':
			n++
		}
		n++
	}
	n += len(end)
	for range 2 { // a long string may end with quotes of its own
		if long && n < len(text) && text[n] == quote[0] {
			n++
		}
	}
	return min(n, len(text))
}

// upTo returns the text before a byte, or all of it.
func upTo(text []byte, end byte) []byte {
	before, _, _ := bytes.Cut(text, []byte{end})
	return before
}

package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxSize bounds the text of a file, in bytes.
const MaxSize = 4 << 20

// Parse returns the mapping at the top of a file, with the lines of all keys. An empty file
// has an empty mapping. The end of the name selects the format: .toml, .json, and YAML for
// all others.
func Parse(file string, text []byte) (*yaml.Node, error) {
	if len(text) > MaxSize {
		return nil, Errors{{Origin: Origin{File: file}, Msg: fmt.Sprintf("%d bytes; a file has %d at most", len(text), MaxSize)}}
	}
	switch strings.ToLower(filepath.Ext(file)) {
	case ".toml":
		return parseTOML(file, text)
	case ".json":
		if err := checkJSON(file, text); err != nil {
			return nil, err
		}
		text = jsonEscapes.ReplaceAllFunc(text, plainEscape)
	}
	root, err := ParseYAML(file, text)
	if root == nil && err == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	return root, err
}

// checkJSON refuses what is YAML but not JSON.
func checkJSON(file string, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var v any
	err := json.Unmarshal(text, &v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		return Errors{{Origin: Origin{File: file, Line: line}, Msg: "not JSON: " + syntax.Error()}}
	}
	return err
}

// jsonEscapes matches the escapes of JSON, of which YAML lacks some.
var jsonEscapes = regexp.MustCompile(`\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|.)`)

// plainEscape replaces an escape that YAML lacks by its character: a slash, and what JSON
// writes as two surrogates.
func plainEscape(escape []byte) []byte {
	var text string
	if len(escape) == 2 && escape[1] != '/' || json.Unmarshal(fmt.Appendf(nil, `"%s"`, escape), &text) != nil {
		return escape
	}
	return []byte(text)
}

// ParseYAML returns the value of the only document, or nil if there is none.
func ParseYAML(file string, text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(file, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, Errors{{Origin: Origin{File: file, Line: more.Line}, Msg: "a second YAML document; one file holds one configuration"}}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(file, err)
	}
	return doc.Content[0], nil
}

// syntaxError takes the line out of the text of a parser's error, which
// reads "yaml: line 3: what is wrong".
func syntaxError(file string, err error) error {
	msg, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	e := &Error{Origin: Origin{File: file}, Msg: "not YAML: " + msg}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if num, what, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(num); err == nil {
				e.Line, e.Msg = line, "not YAML: "+what
			}
		}
	}
	return Errors{e}
}

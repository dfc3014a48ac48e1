// Package output writes answers of rdmad as tables, JSON or YAML.
//
// JSON and YAML are the protobuf JSON of the answer, with the field names of
// the .proto files and unset fields included. Numbers of the API fit a
// double, so that they are JSON numbers; optional settings without a value
// are left out.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/configfile"
)

// jsonLine is v's JSON on one line: protobuf JSON of a message, else that of
// encoding/json. protojson varies white space from build to build on purpose;
// here it is always the same.
func jsonLine(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return json.Marshal(v)
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Compact(&out, raw)
	return out.Bytes(), err
}

// yamlOf turns JSON into block-style YAML, in the same order.
func yamlOf(raw []byte) ([]byte, error) {
	var escaped []byte // JSON is YAML but for some characters in its strings
	for _, r := range string(raw) {
		if awkward(r) {
			escaped = fmt.Appendf(escaped, `\U%08x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	var doc yaml.Node // keeps the order
	if err := yaml.Unmarshal(escaped, &doc); err != nil {
		return nil, err
	}
	blockStyle(&doc)
	return configfile.EncodeYAML(&doc)
}

// awkward says whether YAML refuses a character, or may take it for the end of a line, unless it is escaped. JSON
// escapes only those of ASCII.
func awkward(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }

// older are texts that YAML 1.1 takes for something else: switches, numbers to the base 60, and the words for a merge and for
// a value. Many programs read that version, such as Ansible.
var older = regexp.MustCompile(`^((?i:y|n|yes|no|on|off)|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|<<|=)$`)

// quoted says whether a text needs quotes that the encoder does not give it. It refuses blocks that begin with a tab.
func quoted(s string) bool {
	return strings.ContainsFunc(s, awkward) || strings.HasPrefix(s, "\t") || older.MatchString(s)
}

// blockStyle takes the braces, brackets and quotes of JSON away where YAML
// does without.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.SetString(n.Value) // quotes what would read as another type
		if quoted(n.Value) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	if (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode) && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

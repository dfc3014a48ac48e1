package configfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
	"go.yaml.in/yaml/v3"
)

// parseTOML gives a TOML file as the nodes of the same file in YAML, with the
// lines that the values have in the TOML.
func parseTOML(file string, text []byte) (*yaml.Node, error) {
	if line := tooDeep(text, maxDepth); line > 0 {
		return nil, Errors{{Origin: Origin{File: file, Line: line}, Msg: fmt.Sprintf("more than %d levels of lists, mappings and dotted keys", maxDepth)}}
	}
	var check map[string]any
	if err := toml.Unmarshal(text, &check); err != nil {
		e := &Error{Origin: Origin{File: file}, Msg: "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			e.Line, _ = at.Position()
		}
		return nil, Errors{e}
	}
	t := &tomlTree{root: mapping(1)}
	for i, c := range text {
		if c == '\n' {
			t.ends = append(t.ends, uint32(i)) // Parse bounds the text
		}
	}
	t.p.Reset(text)
	section := t.root
	for t.p.NextExpression() {
		switch e := t.p.Expression(); e.Kind {
		case unstable.Table:
			section = t.descend(t.root, e.Key(), false)
		case unstable.ArrayTable:
			section = t.descend(t.root, e.Key(), true)
		case unstable.KeyValue:
			t.put(section, e)
		}
	}
	return t.root, t.p.Error()
}

// tomlTree is a TOML file that becomes nodes. That tables and keys go together was
// checked.
type tomlTree struct {
	p    unstable.Parser
	root *yaml.Node
	ends []uint32 // of lines
}

func mapping(line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line}
}

// line is the line of a node. The parser itself would count lines from the start of the text.
func (t *tomlTree) line(n *unstable.Node) int {
	before, _ := slices.BinarySearch(t.ends, n.Raw.Offset)
	return before + 1
}

// descend finds the table of a key, and makes what is missing on the way. With
// item, the table is a new one at the end of the key's list.
func (t *tomlTree) descend(at *yaml.Node, key unstable.Iterator, item bool) *yaml.Node {
	for key.Next() {
		name, line := string(key.Node().Data), t.line(key.Node())
		last := item && key.IsLast()
		next := child(at, name)
		if next == nil {
			if next = mapping(line); last {
				next = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
			}
			add(at, name, line, next)
		}
		if last {
			next.Content = append(next.Content, mapping(line))
		}
		if next.Kind == yaml.SequenceNode {
			next = next.Content[len(next.Content)-1]
		}
		at = next
	}
	return at
}

// put adds a key, which may be dotted, with its value.
func (t *tomlTree) put(at *yaml.Node, e *unstable.Node) {
	key := e.Key()
	for key.Next() {
		name, line := string(key.Node().Data), t.line(key.Node())
		if key.IsLast() {
			add(at, name, line, t.value(e.Value(), line))
			return
		}
		next := child(at, name)
		if next == nil {
			next = mapping(line)
			add(at, name, line, next)
		}
		at = next
	}
}

// value is a value as a node. A value without a position in the text
// gets the line of its key.
func (t *tomlTree) value(v *unstable.Node, line int) *yaml.Node {
	if v.Raw.Length > 0 {
		line = t.line(v)
	}
	switch v.Kind {
	case unstable.InlineTable:
		out := mapping(line)
		for items := v.Children(); items.Next(); {
			t.put(out, items.Node())
		}
		return out
	case unstable.Array:
		out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
		for items := v.Children(); items.Next(); {
			out.Content = append(out.Content, t.value(items.Node(), line))
		}
		return out
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tomlTags[v.Kind], Value: string(v.Data), Line: line}
}

var tomlTags = map[unstable.Kind]string{
	unstable.String: "!!str", unstable.Bool: "!!bool", unstable.Integer: "!!int", unstable.Float: "!!float",
	unstable.LocalDate: "!!timestamp", unstable.LocalTime: "!!timestamp", unstable.LocalDateTime: "!!timestamp", unstable.DateTime: "!!timestamp",
}

func child(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func add(n *yaml.Node, name string, line int, value *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name, Line: line}, value)
}

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

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
	var doc yaml.Node // JSON is YAML, and a node keeps the order
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	blockStyle(&doc)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// blockStyle takes the braces, brackets and quotes of JSON away where YAML
// does without.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.SetString(n.Value) // quotes what would read as another type
	}
	if (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode) && len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

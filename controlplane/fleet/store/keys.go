// Package store keeps a fleet in etcd: its keys, their values as protobuf JSON, and the
// transactions that change them.
//
// Everything under the prefix can be written by others. A value that can't be read is a
// *ValueError, which names its key.
package store

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/fleet"
)

// The folders of keys under the prefix.
const (
	nodes       = "node/"
	policies    = "policy/"
	rollouts    = "rollout/"
	assignments = "assign/"
	statuses    = "status/"
	election    = "election/controller"
	dryRuns     = "dryrun/" // a policy that nodes are asked about, by a number
	answers     = "answer/" // NUMBER/NODE
	changes     = "audit/"  // the history
)

// ValueError means that a key of the fleet has a value that can't be read.
type ValueError struct {
	Key string
	Err error
}

// Error is short, and text, whatever the key and its value are.
func (e *ValueError) Error() string {
	return fmt.Sprintf("key %s can't be read: %s", short(e.Key), short(e.Err.Error()))
}

func (e *ValueError) Unwrap() error { return e.Err }

func short(s string) string {
	const most = 256 // bytes
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// strict refuses fields that this rdmad does not know: half of a newer rdmad's policy is not
// that policy.
var strict = protojson.UnmarshalOptions{}

// lenient is for what is only shown.
var lenient = protojson.UnmarshalOptions{DiscardUnknown: true}

func encode(m proto.Message) (string, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	return string(b), err
}

// name returns the last part of a key in a folder, if it is a name.
func name(key, folder string) (string, error) {
	rest, ok := strings.CutPrefix(key, folder)
	if text := fleet.NameProblem(rest); !ok || text != "" {
		return "", fmt.Errorf("%s", text)
	}
	return rest, nil
}

// Package store keeps a fleet in etcd: its keys, their values as protobuf JSON, and the
// transactions that change them.
//
// Everything under the prefix can be written by others. A value that can't be read is a
// *ValueError, which names its key.
package store

import (
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
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

// Error is short and printable, whatever the key and its value are.
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

// maxShown is the size, in bytes, of the largest report or history entry that rdmad reads from etcd
// to show it. The values that rdmad writes are far smaller. etcd takes values of 1.5 MiB by default,
// and a few of them would fill an answer of the control plane.
const maxShown = 256 << 10

// lenient reads what is only shown.
func lenient(value []byte, m proto.Message) error {
	if len(value) > maxShown {
		return fmt.Errorf("it has %d bytes, more than %d", len(value), maxShown)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(value, m)
}

func encode(m proto.Message) (string, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	return string(b), err
}

// decode reads the value of a key. An error is a *ValueError.
func decode[T, M any, P interface {
	*M
	proto.Message
}](kv *mvccpb.KeyValue, read func([]byte, proto.Message) error, convert func(P) (T, error)) (out T, err error) {
	m := P(new(M))
	if err = read(kv.Value, m); err == nil {
		out, err = convert(m)
	}
	if err != nil {
		var none T
		return none, &ValueError{string(kv.Key), err}
	}
	return out, nil
}

// name returns the last part of a key in a folder, or a *ValueError if it is no name.
func name(kv *mvccpb.KeyValue, folder string) (string, error) {
	rest := strings.TrimPrefix(string(kv.Key), folder)
	if text := fleet.NameProblem(rest); text != "" {
		return "", &ValueError{string(kv.Key), errors.New(text)}
	}
	return rest, nil
}

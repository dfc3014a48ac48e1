package settings

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

// Key is a live setting.
type Key uint8

// The live settings, in the order in which they are shown.
const (
	InlineSendMax Key = iota
	InlineReceiveSize
	DDPMinChunk
	DDPPlacement
	RemoteInvalidationAccept
	RemoteInvalidationUse
	CreditsPolicy
	CreditsMax
	CreditsMin
	CreditsBackchannel
	CreditsWeight
	ExtensionV2
	ExtensionCharacteristics
	ExtensionXmit
	ExtensionContinuation
	ExtensionSendDDP
	ExtensionMSGP
	ExtensionReadReplies
	ExtensionCCP
	ExtensionBackchannel
	NumKeys
)

// kind is the type of a key's value.
type kind uint8

const (
	number kind = iota
	flag
	choice
)

// keyInfo is what is known of a key beforehand.
type keyInfo struct {
	name     string
	kind     kind
	unit     string   // of numbers
	min, max uint32   // of numbers, both allowed
	multiple uint32   // numbers must be a multiple of it, when not 0
	choices  []string // of choices, by value
	missing  string   // why nothing implements it; "" when something does, as for all now
}

// The choices of extensions.v2.
const (
	V2Off uint32 = iota
	V2On
	V2Required
)

var keys = [NumKeys]keyInfo{
	InlineSendMax:            {name: "inline.send_max", unit: "bytes", min: conn.InlineMin, max: conn.InlineMax},
	InlineReceiveSize:        {name: "inline.receive_size", unit: "bytes", min: conn.InlineMin, max: conn.InlineMax, multiple: 1024},
	DDPMinChunk:              {name: "ddp.min_chunk", unit: "bytes", max: conn.DDPMinChunkMax},
	DDPPlacement:             {name: "ddp.placement", kind: choice, choices: conn.Placements[:]},
	RemoteInvalidationAccept: {name: "remote_invalidation.accept", kind: flag},
	RemoteInvalidationUse:    {name: "remote_invalidation.use", kind: flag},
	CreditsPolicy:            {name: "credits.policy", kind: choice, choices: []string{conn.CreditsFixed: "fixed", conn.CreditsAdaptive: "adaptive"}},
	CreditsMax:               {name: "credits.max", unit: "calls", min: 1, max: conn.CreditsLimit},
	CreditsMin:               {name: "credits.min", unit: "calls", min: 1, max: conn.CreditsLimit},
	CreditsBackchannel:       {name: "credits.backchannel", unit: "calls", max: conn.ReverseLimit},
	CreditsWeight:            {name: "credits.weight", unit: "shares", min: 1, max: conn.WeightLimit},
	ExtensionV2:              {name: "extensions.v2", kind: choice, choices: []string{V2Off: "off", V2On: "on", V2Required: "required"}},
	ExtensionCharacteristics: {name: "extensions.characteristics", kind: flag},
	ExtensionXmit:            {name: "extensions.xmit", kind: flag},
	ExtensionContinuation:    {name: "extensions.continuation", kind: flag},
	ExtensionSendDDP:         {name: "extensions.send_ddp", kind: flag},
	ExtensionMSGP:            {name: "extensions.msgp", kind: flag},
	ExtensionReadReplies:     {name: "extensions.read_replies", kind: flag},
	ExtensionCCP:             {name: "extensions.ccp", kind: flag},
	ExtensionBackchannel:     {name: "extensions.backchannel", kind: flag},
}

// String is the dotted name.
func (k Key) String() string {
	if k < NumKeys {
		return keys[k].name
	}
	return fmt.Sprintf("Key(%d)", uint8(k))
}

// Missing says why nothing implements the key; "" when something does.
func (k Key) Missing() string { return keys[k].missing }

// ParseKey finds a key by its dotted name.
func ParseKey(name string) (Key, bool) {
	for k := range NumKeys {
		if keys[k].name == name {
			return k, true
		}
	}
	return 0, false
}

// Match finds the keys that a dotted name stands for: one, or with the first
// part alone ("inline") all that begin with it. It is empty when there is
// none.
func Match(name string) KeySet {
	var set KeySet
	for k := range NumKeys {
		if n := keys[k].name; n == name || strings.HasPrefix(n, name+".") {
			set = set.With(k)
		}
	}
	return set
}

// KeySet is a set of keys.
type KeySet uint32

// With is the set with k.
func (s KeySet) With(k Key) KeySet { return s | 1<<k }

// Has says whether k is in the set.
func (s KeySet) Has(k Key) bool { return s&(1<<k) != 0 }

// Keys lists the set in order.
func (s KeySet) Keys() []Key {
	var out []Key
	for k := range NumKeys {
		if s.Has(k) {
			out = append(out, k)
		}
	}
	return out
}

// String names the keys, comma-separated.
func (s KeySet) String() string {
	all := s.Keys()
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

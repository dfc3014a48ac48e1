package dataplane

import "strings"

// Keys is a set of live settings.
type Keys uint32

// The live settings, by their dotted names.
const (
	KeyInlineSendMax            Keys = 1 << iota // inline.send_max
	KeyInlineReceiveSize                         // inline.receive_size
	KeyDDPMinChunk                               // ddp.min_chunk
	KeyRemoteInvalidationAccept                  // remote_invalidation.accept
	KeyRemoteInvalidationUse                     // remote_invalidation.use
	KeyCreditsPolicy                             // credits.policy
	KeyCreditsMin                                // credits.min
	KeyCreditsMax                                // credits.max
	KeyCreditsBackchannel                        // credits.backchannel
	KeyCreditsWeight                             // credits.weight
	KeyExtensionMSGP                             // extensions.msgp
	KeyExtensionReadReplies                      // extensions.read_replies
	KeyExtensionCCP                              // extensions.ccp
	KeyExtensionBackchannel                      // extensions.backchannel
	KeyExtensionV2                               // extensions.v2
	KeyExtensionCharacteristics                  // extensions.characteristics
	KeyExtensionXmit                             // extensions.xmit
	KeyExtensionContinuation                     // extensions.continuation
	KeyExtensionSendDDP                          // extensions.send_ddp
	KeyDDPPlacement                              // ddp.placement
)

var keyNames = [...]string{
	"inline.send_max",
	"inline.receive_size",
	"ddp.min_chunk",
	"remote_invalidation.accept",
	"remote_invalidation.use",
	"credits.policy",
	"credits.min",
	"credits.max",
	"credits.backchannel",
	"credits.weight",
	"extensions.msgp",
	"extensions.read_replies",
	"extensions.ccp",
	"extensions.backchannel",
	"extensions.v2",
	"extensions.characteristics",
	"extensions.xmit",
	"extensions.continuation",
	"extensions.send_ddp",
	"ddp.placement",
}

// Has says whether all of k are in the set.
func (s Keys) Has(k Keys) bool { return s&k == k }

// String names the keys, comma-separated.
func (s Keys) String() string {
	var names []string
	for i, name := range keyNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

package settings

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// When a change is in force on connections that are up.
const (
	atOnce      = "at once"
	nextGrants  = "at once, in the next grants"
	newMessages = "at once, with new messages; what a peer already agreed to is finished first"
)

// Where extensions are defined.
const (
	rtrext   = "draft-dnoveck-nfsv4-rpcrdma-rtrext-00"
	xcharext = "draft-dnoveck-nfsv4-rpcrdma-xcharext"
)

// The choices of extensions.v2.
const (
	V2Off uint32 = iota
	V2On
	V2Required
)

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

// rows are the catalogue.
var rows = [NumKeys]Row{
	InlineSendMax: {
		Name: "inline.send_max", Kind: Size, Unit: "bytes", Min: InlineMin, Max: InlineMax, Default: 4096,
		field:   number(func(s *Settings) *uint32 { return &s.InlineSendMax }),
		Summary: "Largest Send that rdmad makes, in bytes. The peer's receive size limits it too.",
		Details: "Messages that are larger go by RDMA Read and Write. A value above what rdmad announced to the peer at connect waits for a new connection: see [Raising inline.send_max](#raising-inlinesend_max).",
		Example: "inline.send_max=8KiB --scope listener/nfs",
		InForce: "at once, up to the size that the peer was told at connect; above it when the peer connects again, a client after an hour without a connection",
		Outcome: sendMaxOutcome,
	},
	InlineReceiveSize: {
		Name: "inline.receive_size", Kind: Size, Unit: "bytes", Min: InlineMin, Max: InlineMax, Multiple: 1024, Default: 4096,
		field:   number(func(s *Settings) *uint32 { return &s.InlineReceiveSize }),
		Summary: "Size of the receive buffers that rdmad posts and advertises, in bytes.",
		Details: "It is the largest Send that a peer may make. With `extensions.characteristics` at both ends it changes on the connection: larger receives when the smaller ones are used up, smaller ones when the peer has asked for them. Version 2 posts 4096 bytes at least.",
		Example: "inline.receive_size=16KiB",
		InForce: "when the peer connects again: version 1 fixes it at connect",
		Outcome: receiveSizeOutcome,
	},
	DDPMinChunk: {
		Name: "ddp.min_chunk", Kind: Size, Unit: "bytes", Max: DDPMinChunkMax, Default: 4096,
		field:   number(func(s *Settings) *uint32 { return &s.DDPMinChunk }),
		Summary: "Smallest item that moves by RDMA Read or Write although the message would fit inline, in bytes.",
		Details: "A larger value saves RDMA operations for small reads and writes. A smaller value saves copies.",
		Example: "ddp.min_chunk=8KiB",
		InForce: atOnce,
	},
	DDPPlacement: {
		Name: "ddp.placement", Kind: Choice, Choices: []string{PlaceWritten: "exrw", PlaceSent: "tbsn", PlaceChosen: "choice", PlaceBySize: "bysize"}, Default: uint32(PlaceBySize),
		field:   choice(func(s *Settings) *Placement { return &s.Placement }),
		Summary: "How rdmad asks for large results of its own calls: written by RDMA, sent, as the server chooses, or by size.",
		Details: "It counts where `extensions.send_ddp` is in use, on connections that rdmad made. `exrw`: the server writes them by RDMA. `tbsn`: the server sends them if the largest possible results of a call fit the receives of its reply, else it writes them. `choice`: the server decides, and has memory for each. `bysize`: as `tbsn`, but where the largest possible results do not fit, the server sends those that turn out short ([roundtrips.md](roundtrips.md#results-that-turn-out-short)). A server does what its clients ask for.",
		Example: "ddp.placement=exrw --scope listener/out",
		InForce: "at once, with the next calls",
		Outcome: placementOutcome,
	},
	RemoteInvalidationAccept: {
		Name: "remote_invalidation.accept", Kind: Flag, Default: 1,
		field:   flag(func(s *Settings) *bool { return &s.RemoteInvalidationAccept }),
		Summary: "Advertises that the peer may invalidate rdmad's steering tags.",
		Details: "Remote invalidation saves rdmad a work request for each call with chunks. With `extensions.characteristics` at both ends a change is in force at once.",
		Example: "remote_invalidation.accept=off --scope peer/192.0.2.0/24",
		InForce: "when the peer connects again: version 1 fixes it at connect",
		Outcome: acceptOutcome,
	},
	RemoteInvalidationUse: {
		Name: "remote_invalidation.use", Kind: Flag, Default: 1, Answering: true,
		field:   flag(func(s *Settings) *bool { return &s.RemoteInvalidationUse }),
		Summary: "Uses Send With Invalidate for replies to peers that accept it.",
		Details: "It saves the client a work request for each call with chunks.",
		Example: "remote_invalidation.use=off --scope connection/7",
		InForce: atOnce,
		Outcome: useOutcome,
	},
	CreditsPolicy: {
		Name: "credits.policy", Kind: Choice, Choices: []string{CreditsFixed: "fixed", CreditsAdaptive: "adaptive"}, Default: uint32(CreditsFixed), Answering: true,
		field:   choice(func(s *Settings) *Policy { return &s.CreditsPolicy }),
		Summary: "How rdmad chooses grants: always credits.max, or by load between credits.min and credits.max.",
		Details: "`fixed` always grants `credits.max`. `adaptive` divides memory between connections by their load ([credits.md](credits.md)).",
		Example: "credits.policy=adaptive credits.min=4 --confirm-within 60s",
		InForce: nextGrants,
	},
	CreditsMax: {
		Name: "credits.max", Kind: Number, Unit: "calls", Min: 1, Max: CreditsLimit, Default: 64,
		field:   number(func(s *Settings) *uint32 { return &s.CreditsMax }),
		Summary: "Most calls that a peer may have in flight.",
		Details: "rdmad posts receives before it raises a grant, and keeps them for grants that it has already given.",
		Example: "credits.max=128 --scope peer/192.0.2.7",
		InForce: "at once, in the next grants; receives are posted first",
	},
	CreditsMin: {
		Name: "credits.min", Kind: Number, Unit: "calls", Min: 1, Max: CreditsLimit, Default: 1, Answering: true, AtMost: []Key{CreditsMax},
		field:   number(func(s *Settings) *uint32 { return &s.CreditsMin }),
		Summary: "Fewest calls in flight that the adaptive policy grants to a peer.",
		Details: "It must not exceed `credits.max`.",
		Example: "credits.min=8 --scope listener/nfs",
		InForce: nextGrants,
	},
	CreditsBackchannel: {
		Name: "credits.backchannel", Kind: Number, Unit: "calls", Max: ReverseLimit, Default: 16, // as a Linux client grants
		field:   number(func(s *Settings) *uint32 { return &s.CreditsBackchannel }),
		Summary: "Most calls that rdmad may have in flight to the client; 0 means none.",
		Details: "It counts while `extensions.backchannel` is on.",
		Example: "credits.backchannel=32",
		InForce: nextGrants,
		Outcome: backchannelCreditsOutcome,
	},
	CreditsWeight: {
		Name: "credits.weight", Kind: Number, Unit: "shares", Min: 1, Max: WeightLimit, Default: 1, Answering: true,
		field:   number(func(s *Settings) *uint32 { return &s.CreditsWeight }),
		Summary: "The connection's share of the credits that the adaptive policy divides.",
		Details: "A connection of weight 3 gets three times the credits of one of weight 1 when both want more than there is. It counts while `credits.policy` is `adaptive`.",
		Example: "credits.weight=3 --scope peer/192.0.2.0/24",
		InForce: nextGrants,
		Outcome: weightOutcome,
	},
	ExtensionV2: {
		Name: "extensions.v2", Kind: Choice, Choices: []string{V2Off: "off", V2On: "on", V2Required: "required"},
		field:   extension(ExtV2, ExtV2Only),
		Summary: "RPC-over-RDMA version 2: off, on with peers that speak it, or required.",
		Details: "`on` speaks version 2 with peers that do, and version 1 with all others. `required` refuses version 1 ([Version 2](#version-2), [protocol.md](protocol.md)). Receives have 4096 bytes at least then. In the API `required` is `v2` and `v2_required` together.",
		Example: "extensions.v2=on --scope peer/192.0.2.0/24",
		InForce: "until the first call of a connection; after it when the peer connects again",
		Spec:    "draft-cel-nfsv4-rpcrdma-version-two-01",
		Outcome: v2Outcome,
	},
	ExtensionCharacteristics: {
		Name: "extensions.characteristics", Kind: Flag, field: extension(ExtCharacteristics),
		Summary: "Both ends announce receive sizes, remote invalidation and calls to the client, and announce changes on the connection.",
		Details: "The requester asks whether the peer has the extension. Once the peer has it, it stays so for the connection's life ([protocol.md](protocol.md)).",
		Example: "extensions.v2=on extensions.characteristics=on",
		InForce: newMessages, Spec: xcharext,
		Needs:   []Key{ExtensionV2},
		Outcome: characteristicsOutcome,
	},
	ExtensionXmit: {
		Name: "extensions.xmit", Kind: Flag, field: extension(ExtXmit),
		Summary: "Enables XMTREQ and XMTRESP, the message format that continuation and send_ddp need. Has no effect alone.",
		Details: "Used only with peers that advertise it.",
		Example: "extensions.v2=on extensions.characteristics=on extensions.xmit=on",
		InForce: newMessages, Spec: rtrext,
		Needs:   []Key{ExtensionV2, ExtensionCharacteristics},
		Outcome: transmissionOutcome(ExtXmit, rpcrdma2.RTRRequest|rpcrdma2.RTRResponse),
	},
	ExtensionContinuation: {
		Name: "extensions.continuation", Kind: Flag, field: extension(ExtContinuation),
		Summary: "Sends calls and replies in up to 8 Sends in place of RDMA Read and Write.",
		Details: "Used only with peers that advertise it ([protocol.md](protocol.md)). rdmad takes continued messages of the peer for the connection's life.",
		Example: "extensions.continuation=on --scope peer/192.0.2.7",
		InForce: newMessages, Spec: rtrext,
		Needs:   []Key{ExtensionV2, ExtensionXmit},
		Outcome: transmissionOutcome(ExtContinuation, rpcrdma2.RTRContinue),
	},
	ExtensionSendDDP: {
		Name: "extensions.send_ddp", Kind: Flag, field: extension(ExtSendDDP),
		Summary: "Places items of ddp.min_chunk bytes or more, and large results, in pages of the receiver's buffers by Send, without RDMA.",
		Details: "Receives of 5120 bytes or more have such pages: 4096 bytes each, beside 1024 bytes for the rest. Set `inline.receive_size` here and `inline.send_max` at the other end accordingly ([protocol.md](protocol.md)). New calls use receives as large as those first announced on the connection.",
		Example: "extensions.send_ddp=on inline.receive_size=16KiB",
		InForce: newMessages, Spec: rtrext,
		Needs:   []Key{ExtensionV2, ExtensionXmit},
		Outcome: sendDDPOutcome,
	},
	ExtensionMSGP: {
		Name: "extensions.msgp", Kind: Flag, field: extension(ExtMSGP),
		Summary: "Pads inline data to 512 bytes (RDMA_MSGP), and takes padded messages.",
		Details: "Linux does not take padded messages: set it at the scope of peers that do.",
		Example: "extensions.msgp=on --scope peer/192.0.2.7",
		InForce: newMessages, Spec: "RFC 5666, section 3.9",
		Outcome: msgpOutcome,
	},
	ExtensionReadReplies: {
		Name: "extensions.read_replies", Kind: Flag, field: extension(ExtReadReplies),
		Summary: "Answers with read chunks what fits neither inline nor the chunks offered; as a client, takes such replies.",
		Details: "The requester reads such a reply by RDMA and acknowledges it (RDMA_DONE). Replies that are already exposed are finished.",
		Example: "extensions.read_replies=on --scope listener/lab",
		InForce: newMessages, Spec: "RFC 5666, section 3.8",
		Outcome: readRepliesOutcome,
	},
	ExtensionCCP: {
		Name: "extensions.ccp", Kind: Flag, field: extension(ExtCCP),
		Summary: "Answers the Connection Configuration Protocol, ONC RPC program 100417; as a client, speaks it.",
		Details: "Peers that use it say on each connection what they receive.",
		Example: "extensions.ccp=on",
		InForce: "when the peer connects again", Spec: "RFC 5666, section 6",
		Outcome: ccpOutcome,
	},
	ExtensionBackchannel: {
		Name: "extensions.backchannel", Kind: Flag, field: extension(ExtBackchannel), Default: 1,
		Summary: "Allows calls from server to client on the same connection (RFC 8167).",
		Details: "`forward` makes such calls for NFSv4's callbacks. It needs nothing of a client until its upper layer opens the back channel. Calls in flight are finished.",
		Example: "extensions.backchannel=off --scope peer/192.0.2.0/24",
		InForce: newMessages, Spec: "RFC 8167",
		Outcome: backchannelOutcome,
	},
}

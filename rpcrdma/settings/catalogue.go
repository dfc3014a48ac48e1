package settings

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// The moments at which a change takes effect on connections that are up.
const (
	atOnce      = "at once"
	nextGrants  = "at once, in the next grants"
	newMessages = "at once, for new messages; rdmad first finishes what a peer already agreed to"
)

// The documents that define extensions.
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

// rows is the catalogue.
var rows = [NumKeys]Row{
	InlineSendMax: {
		Name: "inline.send_max", Kind: Size, Unit: "bytes", Min: InlineMin, Max: InlineMax, Default: 4096,
		field:   number(func(s *Settings) *uint32 { return &s.InlineSendMax }),
		Summary: "Largest Send that rdmad makes, in bytes. The peer's receive size limits it too.",
		Details: "Larger messages go by RDMA Read and Write. A value above the size that rdmad announced to the peer at connect waits for a new connection: see [Raising inline.send_max](#raising-inlinesend_max).",
		Example: "inline.send_max=8KiB --scope listener/nfs",
		InForce: "at once, up to the size that rdmad announced to the peer at connect; above that size when the peer connects again, for a client after an hour without a connection",
		Outcome: sendMaxOutcome,
	},
	InlineReceiveSize: {
		Name: "inline.receive_size", Kind: Size, Unit: "bytes", Min: InlineMin, Max: InlineMax, Multiple: 1024, Default: 4096,
		field:   number(func(s *Settings) *uint32 { return &s.InlineReceiveSize }),
		Summary: "Size of the receive buffers that rdmad posts and advertises, in bytes.",
		Details: "It is the largest Send that a peer may make. With `extensions.characteristics` at both ends, the size changes on a connection that is up: rdmad posts larger receives when the smaller ones are used up, and smaller ones when the peer has asked for them. In version 2 a receive has at least 4096 bytes.",
		Example: "inline.receive_size=16KiB",
		InForce: "when the peer connects again, because version 1 fixes it at connect",
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
		Details: "It applies to connections that rdmad made and that use `extensions.send_ddp`. `exrw`: the server writes them by RDMA. `tbsn`: the server sends them if the largest possible results of a call fit the receives of its reply. Otherwise it writes them. `choice`: the server decides, and each call offers memory for both. `bysize`: as `tbsn`, but if the largest possible results do not fit, the server still sends those that turn out short ([roundtrips.md](roundtrips.md#results-that-turn-out-short)). As a server, rdmad does what its clients ask for.",
		Example: "ddp.placement=exrw --scope listener/out",
		InForce: "at once, with the next calls",
		Outcome: placementOutcome,
	},
	RemoteInvalidationAccept: {
		Name: "remote_invalidation.accept", Kind: Flag, Default: 1,
		field:   flag(func(s *Settings) *bool { return &s.RemoteInvalidationAccept }),
		Summary: "Advertises that the peer may invalidate rdmad's steering tags.",
		Details: "Remote invalidation saves rdmad a work request for each call with chunks. With `extensions.characteristics` at both ends, a change is in force at once.",
		Example: "remote_invalidation.accept=off --scope peer/192.0.2.0/24",
		InForce: "when the peer connects again, because version 1 fixes it at connect",
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
		Details: "It has no effect while `extensions.backchannel` is off.",
		Example: "credits.backchannel=32",
		InForce: nextGrants,
		Outcome: backchannelCreditsOutcome,
	},
	CreditsWeight: {
		Name: "credits.weight", Kind: Number, Unit: "shares", Min: 1, Max: WeightLimit, Default: 1, Answering: true,
		field:   number(func(s *Settings) *uint32 { return &s.CreditsWeight }),
		Summary: "The connection's weight against others, for credits, memory and processors.",
		Details: "A connection of weight 3 gets three times as many credits as one of weight 1 when both want more than are available, if `credits.policy` is `adaptive`. With each policy the weight counts when calls wait for memory or for a processor.",
		Example: "credits.weight=3 --scope peer/192.0.2.0/24",
		InForce: "at once, in the next grants and calls",
		Outcome: weightOutcome,
	},
	ExtensionV2: {
		Name: "extensions.v2", Kind: Choice, Choices: []string{V2Off: "off", V2On: "on", V2Required: "required"},
		field:   extension(ExtV2, ExtV2Only),
		Summary: "RPC-over-RDMA version 2: off, on with peers that support it, or required.",
		Details: "`on` uses version 2 with peers that support it, and version 1 with all others. `required` refuses version 1 ([Version 2](#version-2), [protocol.md](protocol.md)). With `on` and `required`, receives have at least 4096 bytes. In the API, `required` is `v2` and `v2_required` together.",
		Example: "extensions.v2=on --scope peer/192.0.2.0/24",
		InForce: "at once until the first call of a connection; after that call when the peer connects again",
		Spec:    "draft-cel-nfsv4-rpcrdma-version-two-01",
		Outcome: v2Outcome,
	},
	ExtensionCharacteristics: {
		Name: "extensions.characteristics", Kind: Flag, field: extension(ExtCharacteristics),
		Summary: "Both ends announce their receive sizes and their support of remote invalidation and of calls to the client, also when these change.",
		Details: "The requester asks whether the peer has the extension. If the peer has it, that holds until the connection ends ([protocol.md](protocol.md)).",
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
		Summary: "Sends a call or a reply in up to 8 Sends instead of using RDMA Read and Write.",
		Details: "Used only with peers that advertise it ([protocol.md](protocol.md)). rdmad accepts continued messages of the peer until the connection ends.",
		Example: "extensions.continuation=on --scope peer/192.0.2.7",
		InForce: newMessages, Spec: rtrext,
		Needs:   []Key{ExtensionV2, ExtensionXmit},
		Outcome: transmissionOutcome(ExtContinuation, rpcrdma2.RTRContinue),
	},
	ExtensionSendDDP: {
		Name: "extensions.send_ddp", Kind: Flag, field: extension(ExtSendDDP),
		Summary: "Places items of ddp.min_chunk bytes or more, and large results, in pages of the receiver's buffers by Send, without RDMA.",
		Details: "A receive of 5120 bytes or more has such pages of 4096 bytes each, and 1024 bytes for the rest of the message. Set `inline.receive_size` here and `inline.send_max` at the other end accordingly ([protocol.md](protocol.md)). New calls use receives of the size that was first announced on the connection.",
		Example: "extensions.send_ddp=on inline.receive_size=16KiB",
		InForce: newMessages, Spec: rtrext,
		Needs:   []Key{ExtensionV2, ExtensionXmit},
		Outcome: sendDDPOutcome,
	},
	ExtensionMSGP: {
		Name: "extensions.msgp", Kind: Flag, field: extension(ExtMSGP),
		Summary: "Pads inline data to 512 bytes (RDMA_MSGP), and accepts padded messages.",
		Details: "Linux does not accept padded messages. Set it only at the scope of peers that do.",
		Example: "extensions.msgp=on --scope peer/192.0.2.7",
		InForce: newMessages, Spec: "RFC 5666, section 3.9",
		Outcome: msgpOutcome,
	},
	ExtensionReadReplies: {
		Name: "extensions.read_replies", Kind: Flag, field: extension(ExtReadReplies),
		Summary: "Sends a reply in read chunks if it fits neither inline nor in the offered chunks; as a client, accepts such replies.",
		Details: "The requester reads such a reply by RDMA and acknowledges it (RDMA_DONE). After a change, rdmad finishes the replies that are already exposed.",
		Example: "extensions.read_replies=on --scope listener/lab",
		InForce: newMessages, Spec: "RFC 5666, section 3.8",
		Outcome: readRepliesOutcome,
	},
	ExtensionCCP: {
		Name: "extensions.ccp", Kind: Flag, field: extension(ExtCCP),
		Summary: "Answers calls of the Connection Configuration Protocol (ONC RPC program 100417); as a client, makes such calls.",
		Details: "A peer that uses the protocol announces its receive size on each connection.",
		Example: "extensions.ccp=on",
		InForce: "when the peer connects again", Spec: "RFC 5666, section 6",
		Outcome: ccpOutcome,
	},
	ExtensionBackchannel: {
		Name: "extensions.backchannel", Kind: Flag, field: extension(ExtBackchannel), Default: 1,
		Summary: "Allows calls from server to client on the same connection (RFC 8167).",
		Details: "The service `forward` makes such calls for NFSv4 callbacks. The extension requires nothing of a client until the client's upper layer opens the back channel. After a change, rdmad finishes the calls in flight.",
		Example: "extensions.backchannel=off --scope peer/192.0.2.0/24",
		InForce: newMessages, Spec: "RFC 8167",
		Outcome: backchannelOutcome,
	},
}

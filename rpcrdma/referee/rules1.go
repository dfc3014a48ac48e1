package referee

// rules1 are the rules of version 1, of calls in both directions, of CM private
// data, of ONC RPC and of the NFS bindings.
var rules1 = []Rule{
	{"header.short", "RFC 5666 §4.1", "A message begins with XID, version, credits and procedure."},
	{"header.malformed", "RFC 5666 §4.3", "A header is one that the XDR describes."},
	{"header.trailing", "RFC 5666 §4.1", "Nothing follows the header of NOMSG, DONE and ERROR."},
	{"header.empty", "RFC 5666 §4.1", "MSG and MSGP carry an RPC message behind the header."},
	{"header.nomsg", "RFC 8166 §3.5.3", "NOMSG has the RPC message in a position-zero chunk or in the reply chunk."},
	{"header.error-range", "RFC 5666 §4.2", "ERR_VERS has a lowest version that is not above the highest."},
	{"header.version", "RFC 8167 §5.2", "The version of a reply is that of its call."},
	{"size.threshold", "RFC 8166 §3.3.2", "A Send is not larger than the inline threshold of its way."},
	{"private.flags", "RFC 8797 §4", "Reserved flags are zero."},

	{"xid.mismatch", "RFC 5666 §4.1", "The XID of the header is that of the RPC message."},
	{"xid.reused", "RFC 8167 §2.4", "An XID is unique among a requester's calls in flight."},
	{"reply.unknown", "RFC 8167 §2.1", "A reply or an error answers a call that was made."},
	{"reply.twice", "RFC 5531 §9", "A call is answered once."},
	{"error.answered", "RFC 5666 §4.2", "No error answers an error."},
	{"error.code", "RFC 5666 §4.2", "A version that is not supported is answered ERR_VERS; a header that can't be decoded with an error, of RPC or ERR_CHUNK."},
	{"error.version", "RFC 5666 §4.2", "The range of ERR_VERS leaves out the version that it refuses, as long as no other one is spoken."},

	{"credit.exceeded", "RFC 5666 §3.3", "A requester's calls in flight don't exceed the responder's grant; there is one before the first grant."},
	{"credit.zero", "RFC 5666 §3.3", "A grant is not zero when nothing else is in flight."},
	{"credit.request", "RFC 8166 §3.3.1", "A call asks for a credit at least: its own reply needs one."},

	{"rpc.header", "RFC 5531 §9", "The RPC header is one that the XDR describes, of version 2."},
	{"rpc.direction", "RFC 8167 §5.1", "A message's msg_type is the one that its chunks have: position zero holds a call, a reply chunk a reply."},

	{"chunk.position", "RFC 8166 §3.4.5", "A read chunk's position is a multiple of 4."},
	{"chunk.order", "RFC 8166 §3.4.5", "Read segments come in the order of their positions, those of a chunk together."},
	{"chunk.beyond", "RFC 8166 §3.4.5", "A read chunk's position is within the message."},
	{"chunk.overlap", "RFC 5666 §3.4", "A read chunk begins behind the one before it."},
	{"chunk.position-zero", "RFC 5666 §5.1", "A read chunk at position zero goes with NOMSG and comes first."},
	{"chunk.wraps", "RFC 8166 §3.4.3", "A segment ends within the address space."},
	{"chunk.targets", "RFC 8166 §3.4.6", "Segments that a call offers for results don't overlap."},

	{"ddp.ineligible", "RFC 8166 §6.1", "A read chunk holds an argument's data item that the upper layer's binding makes eligible."},
	{"ddp.length", "RFC 5666 §3.4", "The length in the XDR stream is that of the chunk."},
	{"ddp.result-inline", "RFC 5666 §3.6", "Of several write chunks, each is used for the eligible result that it was offered for, if it is large enough."},
	{"ddp.result-order", "RFC 5666 §3.6", "Eligible results take the write chunks in order."},
	{"ddp.pad-inline", "RFC 8166 §3.4.6", "The roundup of data in a chunk is not in the message."},
	{"ddp.protected", "RFC 8166 §8.2.2", "Nothing is reduced in a call under RPCSEC_GSS integrity or privacy."},

	{"returned.writes", "RFC 5666 §3.6", "A reply returns the call's write list, with lengths alone changed."},
	{"returned.reply", "RFC 5666 §5.2", "A reply returns the call's reply chunk, with lengths alone changed."},
	{"returned.length", "RFC 5666 §3.6", "No more is returned than the segment holds."},
	{"returned.gap", "RFC 5666 §3.6", "A chunk is filled from its first segment on, without gaps."},
	{"returned.unwritten", "RFC 5666 §3.6", "What is returned was written by RDMA Write before the reply was sent."},
	{"returned.inline", "RFC 8166 §4.3.3", "A reply chunk that comes back with MSG was not used."},

	{"memory.unknown", "RFC 5040 §7", "RDMA Writes and Reads use STags of segments that were offered."},
	{"memory.stale", "RFC 5666 §3.5", "A responder leaves the memory of a call alone once it has answered."},
	{"memory.range", "RFC 5040 §7", "RDMA Writes and Reads stay within the segments that were offered."},
	{"memory.rights", "RFC 5666 §3.4", "Read segments are read alone, write segments written alone."},
	{"memory.unfinished", "RFC 5666 §3.5", "A responder's RDMA Reads of a call are done before it answers."},

	{"invalidate.not-agreed", "RFC 8797 §4.1", "Send With Invalidate is used when both sides announced that they support it."},
	{"invalidate.not-reply", "RFC 8797 §4.1", "Send With Invalidate carries a reply."},
	{"invalidate.foreign", "RFC 8166 §4.4", "The STag invalidated is one of the call answered."},
	{"invalidate.shared", "RFC 8166 §4.4", "Of several STags of a call, the one invalidated is not one that an earlier call in flight has offered, too."},

	{"backchannel.early", "RFC 8167 §6", "An NFSv4 server calls once the client has opened the back channel with CREATE_SESSION or BIND_CONN_TO_SESSION."},
	{"msgp.align", "RFC 5666 §3.9", "rdma_align is one that data can be aligned to."},
	{"done.unexpected", "RFC 5666 §3.8", "DONE answers a reply with a read list, once."},
	{"done.early", "RFC 5666 §3.5", "DONE is sent when the RDMA Reads of the reply are done."},
	{"ccp.form", "RFC 5666 §6.2", "Arguments and results of the Connection Configuration Protocol are three words."},
	{"ccp.reads", "RFC 5666 §6.2", "No read chunks go to a peer that announced a maxrdmaread of zero."},

	{"iwarp.after-terminate", "RFC 5040 §5.4", "Nothing follows a Terminate."},
}

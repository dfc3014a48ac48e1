package referee

// rules2 are the rules of version 2, of transport characteristics and of
// rtrext. "wire" is the reference that decides what those specifications leave
// open.
var rules2 = []Rule{
	{"v2.header", "version two §4.2", "A header of version 2 is one that the XDR describes."},
	{"v2.direction", "version two §4.2.2", "rdma_direction and rdma_optdir are those of the RPC message that follows."},
	{"v2.trailing", "version two §4.2.1", "Nothing follows the header of an operation that carries no RPC message."},
	{"v2.reply-reads", "version two §4.2", "A reply has no read list: no header type acknowledges it."},
	{"v2.error-code", "version two §3.1", "INVAL_OPTION answers an OPTIONAL."},
	{"v2.error-direction", "version two §4.2.2", "An error goes from a responder to its requester."},
	{"v2.option-unanswered", "version two §3.1", "An operation that is not supported gets an error."},
	{"size.supported", "version two §2.3", "A receiver takes messages of the size that it announced, or of 4096 bytes."},

	{"version.first-size", "version two §5", "The first message of version 2 has 1024 bytes at most."},
	{"version.first-alone", "version two §5", "Only one message goes out until an answer that is no error."},
	{"version.changed", "version two §5.2", "The version that was agreed on holds for the connection's life."},
	{"version.range", "version two §5.2", "After ERR_VERS a requester continues with a version in the range."},

	{"init.first", "wire §5.1", "INIT is its sender's first message."},
	{"init.size", "wire §5.1", "INIT has 1024 bytes at most."},
	{"init.nochg", "wire §5.1", "A characteristic that INIT names in nochg does not change."},
	{"respond.unmatched", "wire §5.1", "RESPOND has the XID of a REQUEST that waits for it."},
	{"respond.kind", "wire §5.1", "A REQUEST is answered by RESPOND or an error."},
	{"respond.subsets", "wire §5.1", "Each element of a REQUEST is either done or rejected."},
	{"characteristic.malformed", "wire §5.1", "The data of a known characteristic is of its type."},
	{"characteristic.lowered", "wire §5.1", "The size of receives shrinks only if the peer asked for it."},
	{"characteristic.asked", "wire §5.1", "A side that asked for smaller receives keeps to their size from then on."},
	{"backward.none", "wire §5.1", "A client that announced Backward Request Support NONE is not called."},
	{"backward.inline", "wire §5.1", "A client that announced Backward Request Support INLINE is called without chunks."},

	{"rtr.unsupported", "rtrext §8.2", "A peer that announced its RTR Support gets no operation that is not in it."},
	{"group.count", "rtrext §9.2", "A group has one transmission at least."},
	{"group.interrupted", "rtrext §4.2", "A sender sends nothing between the transmissions of a group."},
	{"group.stray", "rtrext §9.4", "XMTCONT continues a group that has begun."},
	{"group.xid", "rtrext §9.4", "XMTCONT has the XID of its group's first transmission."},
	{"group.number", "rtrext §9.4", "XMTCONTs are numbered from 1."},
	{"group.itype", "wire §5.2", "XMTCONT names the operation that began its group."},
	{"group.direction", "version two §4.2.2", "XMTREQ and its continuations call, XMTRESP and its continuations reply."},
	{"group.payload", "rtrext §9.2", "The payload stream's part is within its transmission, and nothing else is, unless data is placed in it."},
	{"group.request-limit", "rtrext §8.4", "A request has no more transmissions than the responder announced that it takes; 1 if it announced nothing."},
	{"group.response-limit", "rtrext §8.5", "A response has no more transmissions than the responder announced that it sends."},
	{"group.promised", "wire §5.2", "A response has at most one transmission more than the request's rsbuf."},

	{"placement.request", "rtrext §6.2", "TOOSHORT and NOITEM are in responses alone."},
	{"placement.order", "rtrext §7.3", "Items are in the order of their places in the virtual stream, within it, and don't overlap."},
	{"placement.position", "rtrext §7.3", "An item begins at a multiple of 4 in the virtual stream."},
	{"placement.source", "rtrext §7.3", "The segments of an item hold all of it."},
	{"placement.target", "rtrext §6.2", "An item placed by Send is in target segments of the receiver's buffers that arrived, and nothing else is there."},
	{"placement.ranges", "rtrext §7.4", "The ranges of directions are disjoint and increase."},
	{"placement.count", "rtrext §7.4", "Each direction of a request has one item in the response, and each item has a direction."},
	{"placement.answer", "rtrext §7.4", "A result is placed in a way that its direction allows."},
	{"placement.minlen", "rtrext §7.4", "A result below the minimum of its direction is in the payload stream."},
	{"placement.segments", "rtrext §7.4", "A result is in the segments that its direction named."},
	{"placement.unwritten", "rtrext §7.4", "A result in segments was written by RDMA Write before the response."},
	{"placement.reply-chunk", "rtrext §9.2", "What was written to the reply chunk comes with NOMSG."},

	{"xmterr.unknown", "rtrext §9.5", "XMTERR names transmissions that its receiver has sent."},
	{"xmterr.values", "rtrext §9.5", "XMTERR reports a value that is wrong."},
}

package dataplane

import "github.com/rdmad/rdmad/rpcrdma"

// leastReceive2 is the least size of receives for version 2, in bytes.
const leastReceive2 = 4096

// speaks says whether settings let a connection begin with a version.
func speaks(s *rpcrdma.Settings, version int) bool {
	if version == 2 {
		return s.Extensions&(rpcrdma.ExtV2|rpcrdma.ExtV2Only) != 0
	}
	return !s.Extensions.Has(rpcrdma.ExtV2Only)
}

// version2Outcome notes what becomes of extensions.v2 on a connection that a
// peer made to us. It chooses the version with its first call.
func version2Outcome(now *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	switch {
	case peer.agreed && peer.version == 1 && speaks(now, 2):
		note(PendingReconnect, "extensions.v2: the peer's first call chose version 1, for as long as the connection lives")
	case peer.agreed && !speaks(now, peer.version):
		note(PendingReconnect, "extensions.v2: the peer's first call chose version %d, for as long as the connection lives", peer.version)
	case !peer.agreed && speaks(now, 2) && peer.receives < leastReceive2:
		note(Unsupported, "extensions.v2: version 2 needs receives of %d bytes, this connection's have %d; the next will have them", leastReceive2, peer.receives)
	}
}

// version2Wanted does so on a connection that a connector made, which offered a
// version when it connected.
func version2Wanted(now, atConnect *rpcrdma.Settings, peer limits, note func(o Outcome, format string, args ...any)) {
	switch {
	case peer.agreed && !speaks(now, peer.version):
		note(PendingReconnect, "extensions.v2: version %d is agreed on, for as long as the connection lives", peer.version)
	case speaks(now, 2) && !speaks(atConnect, 2):
		note(PendingReconnect, "extensions.v2: the target is offered version 2 at connect")
	case !peer.agreed && (speaks(now, 1) != speaks(atConnect, 1) || speaks(now, 2) != speaks(atConnect, 2)):
		note(PendingReconnect, "extensions.v2: what the target was offered at connect holds until it answers")
	}
}

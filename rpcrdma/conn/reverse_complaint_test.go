package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestLongCallbackAfterComplaint: an XMTERR about a reply of the client, which nothing
// acknowledges yet, does not hold back the only call, also one of several transmissions:
// nothing else could acknowledge it.
func TestLongCallbackAfterComplaint(t *testing.T) {
	const long = 5000 // two transmissions
	s := groupSettings(2, 2)
	ends := []*duplexEnd{newDuplexEnd(t, false, s), newDuplexEnd(t, true, s)}
	meet(ends)
	server := ends[1]
	server.call(40, 6000)
	if server.out = nil; len(server.open) != 1 || !server.open[0].transmitted {
		t.Fatalf("%d calls open", len(server.open))
	}
	server.receive(optionMessage(server.open[0].XID, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1, PayloadLength: 9}, make([]byte, 8)))
	if server.q.spend.Dones() != 1 || len(server.open) != 0 {
		t.Fatalf("%d complaints, %d calls open", server.q.spend.Dones(), len(server.open))
	}
	server.call(long, 24)
	drain(ends, func(int) int { return 0 })
	if server.completed != 3 || server.groups != 1 || server.dead || ends[0].dead || server.q.spend.Dones() != 0 {
		t.Errorf("%d calls completed, %d of several transmissions", server.completed, server.groups)
	}
}

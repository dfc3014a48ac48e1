package referee

import "testing"

func TestSilence(t *testing.T) {
	b := connected(t)
	for xid := range 20 {
		b.send(Client, callOf(xid, 32))
		b.send(Server, replyOf(xid, 32))
	}
	if len(b.got) > 0 {
		t.Fatal(b.got)
	}
}

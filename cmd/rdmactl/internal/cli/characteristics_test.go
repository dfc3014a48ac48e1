package cli

import (
	"strings"
	"testing"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// A connection's characteristics are a table of their own, before its transport;
// without them there is none.
func TestCharacteristicsTable(t *testing.T) {
	res := &rdmadv1.GetConnectionResponse{
		Connection: &rdmadv1.Connection{Id: "1"},
		Transport:  &rdmadv1.TransportStatistics{},
		Characteristics: &rdmadv1.Characteristics{
			Own: &rdmadv1.CharacteristicValues{ReceiveSize: 4096, Backward: "inline", RequestTransmissions: 1, ResponseTransmissions: 1},
			Peer: &rdmadv1.CharacteristicValues{
				ReceiveSize: 65536, RemoteInvalidation: true, Backward: "none", Rtr: []string{"xreq", "xresp"},
				Targets:              []*rdmadv1.BufferSegments{{Count: 15, Length: 4096, Align: 4096}},
				RequestTransmissions: 8, ResponseTransmissions: 8,
			},
		},
	}
	show := func() string {
		var b strings.Builder
		if err := output.NewPrinter(&b, "table").Answer(res, func() *output.Table { return connectionTable(res) }); err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(b.String(), "\n\n") // the connection's table
		before, _, _ := strings.Cut(after, "\n\n")
		return before
	}
	want := `CHARACTERISTIC       OWN         PEER
receive size         4096 bytes  65536 bytes
targets              -           15 of 4096 bytes
remote invalidation  off         on
backward requests    inline      none
transmissions        -           xreq xresp
of a request taken   1           8
of a response made   1           8`
	if got := show(); got != want {
		t.Errorf("shows\n%s", got)
	}
	res.Characteristics = nil
	if got := show(); !strings.HasPrefix(got, "TRANSPORT") {
		t.Errorf("without, shows\n%s", got)
	}
}

package softiwarp

import (
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestNudge: a passive side that overlooks the first FPDU until another one comes, like siw,
// gets a nudge, and the connection goes on.
func TestNudge(t *testing.T) {
	for _, crc := range []bool{false, true} {
		reply := mpa.Frame{Revision: 2, Enhanced: true, CRC: crc, EnhancedData: mpa.Enhanced{IRD: 1, ORD: 1}}
		address := rawServer(t, replyWith(reply), func(p *rawPeer) {
			p.crc = crc
			p.expect(rdmap.Send)
			h, payload := p.expect(rdmap.Write)
			if !h.Last || h.STag != 0 || h.TO != 0 || len(payload) != 0 {
				t.Errorf("nudged with %+v and %d bytes", h, len(payload))
			}
			p.message(rdmap.Send, 1, nil)
			if h, _ := p.expect(rdmap.Send); h.QN != ddp.QueueSend || h.MSN != 2 {
				t.Errorf("then got %+v", h)
			}
		})
		s, err := dialRaw(t, Config{}, address, testParam)
		verbstest.Must(t, err)
		s.send(verbs.SendWR{ID: 2})
		if wc := s.succeed(1)[0]; wc.Op != verbs.WCRecv {
			t.Errorf("got %+v", wc)
		}
		s.send(verbs.SendWR{ID: 3})
		<-s.id.Disconnected()
	}
}

package ulb_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
)

var channel = enc(0, 4096, 4096, 0, 8, 16, 0)

func createSession(flags, program int) []byte {
	return enc(43, 0, 9, 1, flags, channel, channel, program, 1, 0)
}

func didCreateSession(flags int) []byte { return enc(43, 0, sid, 1, flags, channel, channel) }

func TestBackChannel(t *testing.T) {
	const program = 0x4abcdef0
	bindDir := func(dir int) []byte { return enc(41, sid, dir, 0) }
	didBind := func(dir int) []byte { return enc(41, 0, sid, dir, 0) }
	setClientID := enc(35, 0, 1, "client", program, "rdma", "192.0.2.1.8.1", 77)
	for name, c := range map[string]struct {
		ask, answer []byte
		status      int
		want        ulb.Opened
	}{
		"session, granted":        {createSession(3, program), didCreateSession(2), 0, ulb.OpenedSession},
		"session, refused":        {createSession(2, program), didCreateSession(1), 0, ulb.NotOpened},
		"session, not asked for":  {createSession(1, program), didCreateSession(2), 0, ulb.NotOpened},
		"session, failed":         {createSession(2, program), enc(43, 10022), 10022, ulb.NotOpened},
		"bound both ways":         {bindDir(7), didBind(3), 0, ulb.OpenedBind},
		"bound as back channel":   {bindDir(2), didBind(2), 0, ulb.OpenedBind},
		"bound forward":           {bindDir(3), didBind(1), 0, ulb.NotOpened},
		"bind failed":             {bindDir(2), enc(41, 10052), 10052, ulb.NotOpened},
		"client identified":       {setClientID, enc(35, 0, 0, 5, 0, 6), 0, ulb.NotOpened},
		"client in use":           {setClientID, enc(35, 10017, "tcp", "192.0.2.9.8.1"), 10017, ulb.NotOpened},
		"another program":         {enc(40, program, 1, 1, 0, "host", 0, 0, 1, 0), enc(40, 0), 0, ulb.NotOpened},
		"another program refused": {enc(40, program, 0), enc(40, 22), 22, ulb.NotOpened},
		"nothing of the kind":     {read(4), didRead("abcd"), 0, ulb.NotOpened},
	} {
		t.Run(name, func(t *testing.T) {
			p := ulb.Plan{Opened: ulb.OpenedBind}
			must(t, p.Call(registry, compound(1, c.ask)))
			if p.Opened != ulb.NotOpened {
				t.Errorf("before the reply: %v", p.Opened)
			}
			must(t, p.Reply(&oncrpc.Payload{Stream: results(c.status, 1, c.answer)}))
			if p.Opened != c.want {
				t.Errorf("got %v, want %v", p.Opened, c.want)
			}
		})
	}
}

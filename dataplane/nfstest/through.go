package nfstest

import "github.com/rdmad/rdmad/rpcrdma"

// maxData is the most data of one READ or WRITE that rdmad carries, in bytes.
const maxData = 1 << 20

// Through is a strict client that reaches a Server through rdmad. The Server
// announces larger sizes than rdmad carries. rdmad must lower them, and carry the
// lowered sizes to the byte.
type Through struct {
	Client *Client
	Server *Server
	// Back is the largest message that the back channel carries, in bytes.
	Back uint32
}

// MaxData checks MAXREAD and MAXWRITE, in a GETATTR and in a READDIR.
func (g Through) MaxData() {
	t, c := g.Client.T, g.Client
	t.Helper()
	if read, write := c.Limits(); read != maxData || write != maxData {
		t.Errorf("MAXREAD %d, MAXWRITE %d", read, write)
	}
	if read, write := c.Listed(); read != maxData || write != maxData {
		t.Errorf("listed: MAXREAD %d, MAXWRITE %d", read, write)
	}
	c.MaxData()
	g.largestRead()
}

// MaxSession checks the sizes of both channels in a CREATE_SESSION.
func (g Through) MaxSession() {
	t, c := g.Client.T, g.Client
	t.Helper()
	c.Open("strict")
	asked := g.Server.Sessions()[0]
	if fore := &asked.CsaForeChanAttrs; fore.CaMaxrequestsize != rpcrdma.MaxMessage || fore.CaMaxresponsesize != rpcrdma.MaxMessage {
		t.Errorf("the server was asked for %+v", fore)
	}
	if n := c.Fore.CaMaxrequestsize; n != rpcrdma.MaxMessage || c.Fore.CaMaxresponsesize != n || c.Fore.CaMaxresponsesizeCached != n || c.Fore.CaMaxoperations != 1024 {
		t.Errorf("the client was granted %+v", c.Fore)
	}
	for _, back := range []uint32{asked.CsaBackChanAttrs.CaMaxrequestsize, c.Back.CaMaxrequestsize, c.Back.CaMaxresponsesize, c.Back.CaMaxresponsesizeCached} {
		if back != g.Back {
			t.Errorf("%d bytes on the back channel, want %d", back, g.Back)
		}
	}
	c.MaxSession()
}

// MaxInfo checks the sizes in version 3's FSINFO.
func (g Through) MaxInfo() {
	t := g.Client.T
	t.Helper()
	c := &Client3{T: t, Carrier: g.Client.Carrier, Root: []byte("root")}
	info := c.Info()
	for _, n := range []uint32{info.Rtmax, info.Rtpref, info.Wtmax, info.Wtpref, info.Dtpref} {
		if n != maxData {
			t.Errorf("%+v", info)
		}
	}
	if info.Maxfilesize != 1<<62 || info.Rtmult != 4 {
		t.Errorf("%+v", info)
	}
	c.MaxData([]byte("file"))
	g.largestRead()
}

// largestRead checks that the largest READ that rdmad carries reached the server, and
// no larger one.
func (g Through) largestRead() {
	g.Client.T.Helper()
	if n := g.Server.LargestRead(); n != maxData {
		g.Client.T.Errorf("the server was asked for %d bytes", n)
	}
}

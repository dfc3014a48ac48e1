package connector

import (
	"net"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestNoAllocation: a call and its reply cost no allocation once everything is
// there: in the connector, the transport, and the target. The loopback provider
// makes one for each window that is bound.
func TestNoAllocation(t *testing.T) {
	e := newExport(t, loopback.New(loopback.Config{})) // no referee, whose memory would count
	e.d.SetSlowCall(time.Hour)
	file := e.create("file")
	const size = 64 << 10
	if err := e.write(file, 0, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	read := nfstest.ReadArgs(file, 0, size)
	write := append(nfstest.WriteArgs(file, 0, size, nfstest.Unstable), make([]byte, size)...)
	for name, c := range map[string]struct {
		proc    uint32
		args    []byte
		windows float64
	}{"NULL": {0, nil, 0}, "READ": {procRead, read, 1}, "WRITE": {procWrite, write, 1}, "long stream": {0, make([]byte, 3000), 0}} {
		nc, _ := e.raw()
		msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 1, Program: nfs.Program, Version: 3, Procedure: c.proc, Cred: e.cred})
		b := frame(append(msg, c.args...))
		into := make([]byte, size+1024)
		var err error
		do := func() {
			if _, err = nc.Write(b); err == nil {
				err = readReply(nc, into)
			}
		}
		for range 20 {
			do()
		}
		if n := testing.AllocsPerRun(100, do); n > c.windows && !raceEnabled || err != nil {
			t.Errorf("%s: %v allocations, %v", name, n, err)
		}
	}
}

// TestIdleCallsKeepLittle: calls that were in flight at once keep storage of short calls and
// replies only, because no pool counts it. Longer storage goes to the next calls of any client.
func TestIdleCallsKeepLittle(t *testing.T) {
	const calls, most = 64, 1 << 10
	s := &session{c: &Connector{spares: rpctcp.NewSpares(keepStream)}}
	flight := make([]*call, calls)
	for i := range flight {
		cl := s.take()
		cl.stream = make([]byte, keepStream)
		cl.rpc.Reply = make([]byte, most+i%2*keepStream/2)
		flight[i] = cl
	}
	for _, cl := range flight {
		cl.end()
	}
	for _, cl := range s.idle {
		for name, n := range map[string]int{"stream": cap(cl.stream), "head": cap(cl.head), "reply": cap(cl.rpc.Reply), "short": cap(cl.short)} {
			if n > most {
				t.Errorf("an idle call keeps a %s of %d bytes", name, n)
			}
		}
	}
	if n := len(s.idle); n != calls {
		t.Errorf("%d idle calls", n)
	}
	if n := cap(s.c.spares.Take(nil)); n <= most {
		t.Errorf("the next call gets %d bytes", n)
	}
}

// readReply reads one record of one fragment.
func readReply(nc net.Conn, into []byte) error {
	for have, want := 0, oncrpc.RecordMarkSize; have < want; {
		n, err := nc.Read(into[have:])
		if err != nil {
			return err
		}
		if have += n; have >= oncrpc.RecordMarkSize {
			want = oncrpc.RecordMarkSize + int(into[1])<<16 + int(into[2])<<8 + int(into[3])
		}
	}
	return nil
}

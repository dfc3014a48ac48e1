package procedures

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// server answers with a status or an error, or with a whole reply.
type server struct {
	status  uint32
	results bool
	whole   []byte
	err     error
}

func (s *server) ServeRPC(_ context.Context, _ *oncrpc.Call, reply *oncrpc.Reply) error {
	switch {
	case s.whole != nil:
		reply.Stream = append(reply.Stream[:0], s.whole...)
	case s.results:
		reply.Stream = xdr.AppendUint32(reply.Stream, s.status)
	}
	return s.err
}

// call makes one call as a transport does.
func call(ctx context.Context, h oncrpc.Handler, c oncrpc.Call) {
	_ = oncrpc.Serve(ctx, h, &c, new(oncrpc.Reply))
}

// stats returns the counters by program, version and procedure.
func stats(t *Table) map[[3]string]*Stats {
	out := make(map[[3]string]*Stats)
	t.Each(func(s *Stats) { out[[3]string{s.Program, s.Version, s.Procedure}] = s })
	return out
}

var read = oncrpc.Call{Program: 100003, Version: 3, Procedure: 6}

func TestErrorsByClass(t *testing.T) {
	answer := func(status uint32) *server { return &server{results: true, status: status} }
	gss := read
	gss.Cred.Flavor = oncrpc.FlavorGSS
	mnt, umnt := oncrpc.Call{Program: 100005, Version: 3, Procedure: 1}, oncrpc.Call{Program: 100005, Version: 3, Procedure: 3}
	for name, c := range map[string]struct {
		call   oncrpc.Call
		server *server
		want   [Classes]uint64
	}{
		"OK":                      {read, answer(0), [Classes]uint64{}},
		"NOENT":                   {read, answer(2), [Classes]uint64{Client: 1}},
		"IO":                      {read, answer(5), [Classes]uint64{Server: 1}},
		"JUKEBOX":                 {read, answer(10008), [Classes]uint64{Server: 1}},
		"NULL":                    {oncrpc.Call{Program: 100003, Version: 3}, &server{}, [Classes]uint64{}},
		"COMPOUND":                {oncrpc.Call{Program: 100003, Version: 4, Procedure: 1}, answer(10018), [Classes]uint64{Server: 1}},
		"encrypted":               {gss, answer(5), [Classes]uint64{}},
		"MNT":                     {mnt, answer(13), [Classes]uint64{Client: 1}},
		"UMNT, without a status":  {umnt, answer(13), [Classes]uint64{}},
		"another program":         {oncrpc.Call{Program: 1, Version: 1, Procedure: 1}, answer(5), [Classes]uint64{}},
		"an RPC error":            {read, &server{err: errors.New("no")}, [Classes]uint64{RPC: 1}},
		"a whole reply":           {read, &server{whole: xdr.AppendUint32(oncrpc.AppendAcceptedReply(nil, read.XID), 5)}, [Classes]uint64{Server: 1}},
		"a whole reply, an error": {read, &server{whole: oncrpc.AppendError(nil, read.XID, &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail})}, [Classes]uint64{RPC: 1}},
	} {
		table := New()
		call(t.Context(), table.Count(c.server), c.call)
		all := stats(table)
		if len(all) != 1 {
			t.Errorf("%s: %d procedures", name, len(all))
		}
		for _, s := range all {
			if s.Errors != c.want || s.Time.Count != 1 {
				t.Errorf("%s: errors %v of %d calls, want %v of 1", name, s.Errors, s.Time.Count, c.want)
			}
		}
	}
}

// A call whose connection ends gets no answer, so that it has no error either.
func TestNoErrorsOfLostConnections(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table := New()
	call(ctx, table.Count(&server{err: context.Canceled}), read)
	if s := stats(table)[[3]string{"NFS", "3", "READ"}]; s == nil || s.Time.Count != 1 || s.Errors != [Classes]uint64{} {
		t.Errorf("got %+v", s)
	}
}

// A client that calls made-up procedures cannot make the table grow.
func TestUnknownProceduresTogether(t *testing.T) {
	table := New()
	h := table.Count(&server{})
	for i := range uint32(100) {
		call(t.Context(), h, oncrpc.Call{Program: 100003, Version: 3, Procedure: 22 + i})
		call(t.Context(), h, oncrpc.Call{Program: 100003, Version: 5 + i})
		call(t.Context(), h, oncrpc.Call{Program: i})
	}
	all := stats(table)
	if s := all[[3]string{other, "", other}]; len(all) != 1 || s == nil || s.Time.Count != 300 {
		t.Errorf("got %v", all)
	}
}

// stateful keeps a server for each connection.
type stateful struct {
	server
	session perconn.Handler
}

func (s *stateful) OpenConn(context.Context, netip.AddrPort) (perconn.Handler, error) {
	return s.session, nil
}

type one struct {
	server
	up, closed bool
}

func (o *one) Up(perconn.Conn) { o.up = true }
func (o *one) Close()          { o.closed = true }

func (o *one) Traits() perconn.Traits { return perconn.Traits{Early: true} }

func TestSessionsAreCounted(t *testing.T) {
	table := New()
	if _, ok := table.Count(&server{}).(perconn.Opener); ok {
		t.Error("a service without sessions has some")
	}
	o := new(one)
	h, err := table.Count(&stateful{session: o}).(perconn.Opener).OpenConn(t.Context(), netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	if !perconn.TraitsOf(h).Early {
		t.Error("the traits of the session are lost")
	}
	h.Up(nil)
	call(t.Context(), h, read)
	h.Close()
	if s := stats(table)[[3]string{"NFS", "3", "READ"}]; !o.up || !o.closed || s == nil || s.Time.Count != 1 {
		t.Errorf("up %v, closed %v, counted %+v", o.up, o.closed, s)
	}
	if h, err := table.Count(new(stateful)).(perconn.Opener).OpenConn(t.Context(), netip.AddrPort{}); h != nil || err != nil {
		t.Errorf("a service that keeps nothing has the session %v, %v", h, err)
	}
}

// later answers its calls when the test says so.
type later struct {
	ctx   context.Context
	call  oncrpc.Call
	reply oncrpc.Reply
}

func (*later) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return oncrpc.ErrLater }

func (l *later) Answer(err error) { _ = oncrpc.Answer(l.ctx, &l.call, &l.reply, err) }

// TestLaterAnswers: the time of a call lasts until its answer, and its error is that of the
// answer.
func TestLaterAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := New()
		l := &later{ctx: t.Context(), call: read}
		l.call.Later = l
		if err := oncrpc.Serve(l.ctx, table.Count(l), &l.call, &l.reply); !errors.Is(err, oncrpc.ErrLater) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if n := len(stats(table)); n != 0 {
			t.Error("counted before it is answered")
		}
		l.reply.Stream = xdr.AppendUint32(l.reply.Stream, 5)
		l.Answer(nil)
		if s := stats(table)[[3]string{"NFS", "3", "READ"}]; s == nil || s.Errors != [Classes]uint64{Server: 1} || s.Time.Count != 1 || s.Time.Sum != uint64(time.Second) {
			t.Errorf("got %+v", s)
		}
	})
}

func TestCountAllocatesNothing(t *testing.T) {
	h := New().Count(&server{results: true, status: 2})
	c, reply := read, oncrpc.Reply{Stream: make([]byte, 0, 64)}
	ctx := t.Context()
	serve := func() {
		if err := oncrpc.Serve(ctx, h, &c, &reply); err != nil {
			t.Fatal(err)
		}
	}
	serve() // the procedure's counters are made
	if n := testing.AllocsPerRun(1000, serve); n != 0 {
		t.Errorf("%v allocations per call", n)
	}
}

func BenchmarkCount(b *testing.B) {
	h := New().Count(&server{results: true})
	c, reply := read, oncrpc.Reply{Stream: make([]byte, 0, 64)}
	for b.Loop() {
		_ = oncrpc.Serve(b.Context(), h, &c, &reply)
	}
}

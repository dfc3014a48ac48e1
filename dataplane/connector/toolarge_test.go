package connector

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// words encodes unsigned integers.
func words(n ...uint32) (b []byte) {
	for _, v := range n {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

// inFragments is a record in fragments of at most n bytes.
func inFragments(msg []byte, n int) (b []byte) {
	for len(msg) > n {
		b = append(oncrpc.AppendRecordMark(b, n, false), msg[:n]...)
		msg = msg[n:]
	}
	return append(b, frame(msg)...)
}

// TestTooLarge: a call that can't be carried is answered, in the words of its
// program where it has some, and the connection goes on.
func TestTooLarge(t *testing.T) {
	garbage := oncrpc.AppendAcceptError(nil, 7, &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs})
	refused := func(results ...[]byte) []byte {
		return append(oncrpc.AppendAcceptedReply(nil, 7), bytes.Join(results, nil)...)
	}
	tag := xdr.AppendString(nil, "tag")
	sid := make([]byte, 16)
	gss := oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: append(words(1, 0, 7, 3), xdr.AppendString(nil, "handle")...)}
	write := func(n int) []byte { return append(append(words(38), sid...), words(0, 0, 2, uint32(n))...) }
	for name, c := range map[string]struct {
		program, version uint32
		cred             oncrpc.Auth
		head             []byte
		size             int
		want             []byte
	}{
		"4.0":         {100003, 4, oncrpc.Auth{}, bytes.Join([][]byte{tag, words(0, 2, 24), write(nfstest.Boast)}, nil), nfstest.Boast, refused(words(10018), tag, words(1, 24, 10018))},
		"4.1":         {100003, 4, oncrpc.Auth{}, bytes.Join([][]byte{tag, words(1, 2, 53), sid, words(1, 0, 0, 0), write(MaxRecord)}, nil), MaxRecord, refused(words(10065), tag, words(1, 53, 10065))},
		"4.1 SETATTR": {100003, 4, oncrpc.Auth{}, bytes.Join([][]byte{tag, words(2, 1, 34), sid, words(1, 1<<12, MaxRecord)}, nil), MaxRecord, refused(words(10065), tag, words(1, 34, 10065, 0))},
		"krb5p":       {100003, 4, gss, words(MaxRecord), MaxRecord, garbage},
		"3":           {100003, 3, oncrpc.Auth{}, bytes.Join([][]byte{tag, words(0, 0, MaxRecord, 0, MaxRecord)}, nil), MaxRecord, garbage},
		"others":      {200000, 1, oncrpc.Auth{}, words(MaxRecord), MaxRecord, garbage},
	} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				r := newRig(t, p, new(nfstest.Server), Config{})
				nc, records := r.raw()
				proc := uint32(1)
				if c.version == 3 {
					proc = 7
				}
				msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 7, Program: c.program, Version: c.version, Procedure: proc, Cred: c.cred})
				msg = append(append(msg, c.head...), make([]byte, c.size)...)
				null := frame(oncrpc.AppendCall(nil, &oncrpc.Call{XID: 8, Program: 100003, Version: 3}))
				for _, record := range [][]byte{frame(msg), inFragments(msg, 700000), inFragments(msg, 1000000)} {
					go func() { _, _ = nc.Write(append(record, null...)) }() // what does not arrive shows below
					for _, want := range [][]byte{c.want, oncrpc.AppendAcceptedReply(nil, 8)} {
						if _, err := records.Next(); err != nil {
							t.Fatal(err)
						}
						if got, err := records.Read(nil); err != nil || !bytes.Equal(got, want) {
							t.Fatalf("got %x, %v, want %x", got, err, want)
						}
					}
				}
				if s := r.c.Stats(); s.Failed != 3 {
					t.Errorf("%+v", s)
				}
				if n := len(r.log.Lines("call refused", errTooLarge.Error())); n != 3 || len(r.log.Lines("SYSTEM_ERR")) > 0 {
					t.Errorf("%d lines about the answers", n)
				}
			})
		})
	}
}

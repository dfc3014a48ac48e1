package ulb_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

var registry = ulb.NewRegistry(nfs.Bindings()...)

const nfsProgram = 100003

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// enc encodes words (int), strings and raw bytes.
func enc(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = xdr.AppendUint32(b, uint32(p))
		case string:
			b = xdr.AppendString(b, p)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

var sid = make([]byte, 16) // a stateid, or a session's

func call(version, proc uint32, args ...any) *oncrpc.Call {
	return &oncrpc.Call{Program: nfsProgram, Version: version, Procedure: proc, Args: oncrpc.Payload{Stream: enc(args...)}}
}

// compound is a COMPOUND call of n operations.
func compound(n int, ops ...any) *oncrpc.Call {
	return call(4, 1, "", 1, n, enc(ops...))
}

// results are those of a COMPOUND of n operations.
func results(status, n int, ops ...any) []byte { return enc(status, "", n, enc(ops...)) }

// Operations of COMPOUND and what succeeded.
func read(count int) []byte        { return enc(25, sid, 0, 0, count) }
func didRead(data string) []byte   { return enc(25, 0, 1, data) }
func write(data string) []byte     { return enc(38, sid, 0, 0, 2, data) }
func symlink(target string) []byte { return enc(6, 5, target, "name", 0, 0) }
func readlink() []byte             { return enc(27) }
func didReadlink(s string) []byte  { return enc(27, 0, s) }

// gss is an RPCSEC_GSS credential (RFC 2203 §5.3.1).
func gss(proc, service int) oncrpc.Auth {
	return oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: enc(1, proc, 7, service, "handle")}
}

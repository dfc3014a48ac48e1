package oncrpc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
)

// unhex decodes hex digits with blanks between them.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// nfsNull is the Linux client's first call: NFSv3 NULL with AUTH_NONE.
const nfsNull = "6b8b4567 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000"

func TestDecodeCall(t *testing.T) {
	msg := unhex(t, `0000002a 00000000 00000002 000186a3 00000003 00000007
		00000001 00000018 00000000 00000003 61626300 00000000 00000000 00000000
		00000000 00000002 0102 0000
		deadbeef`)
	var c Call
	n, err := DecodeCall(msg, &c)
	if err != nil || n != len(msg)-4 {
		t.Fatalf("%d, %v; want %d", n, err, len(msg)-4)
	}
	if c.XID != 42 || c.Program != 100003 || c.Version != 3 || c.Procedure != 7 {
		t.Errorf("call %+v", c)
	}
	if c.Cred.Flavor != FlavorSys || !bytes.Equal(c.Cred.Body, msg[32:56]) || &c.Cred.Body[0] != &msg[32] {
		t.Errorf("credential %+v", c.Cred)
	}
	if c.Verf.Flavor != FlavorNone || !bytes.Equal(c.Verf.Body, []byte{1, 2}) {
		t.Errorf("verifier %+v", c.Verf)
	}
	if got := AppendCall(nil, &c); !bytes.Equal(got, msg[:n]) {
		t.Errorf("encoded %x, want %x", got, msg[:n])
	}
}

func TestDecodeCallErrors(t *testing.T) {
	tooLong := "00000191" + strings.Repeat("00", 404)
	for _, c := range []struct {
		name string
		msg  string
		want error
	}{
		{"nothing", "", ErrMalformed},
		{"no message type", "00000001", ErrMalformed},
		{"a reply", "00000001 00000001 00000000 00000000 00000000 00000000", ErrMalformed},
		{"message type 2", strings.Replace(nfsNull, "00000000", "00000002", 1), ErrMalformed},
		{"no RPC version", "00000001 00000000", ErrMalformed},
		{"RPC version 1", "00000001 00000000 00000001", errRPCMismatch},
		{"RPC version 3", strings.Replace(nfsNull, "00000002", "00000003", 1), errRPCMismatch},
		{"no verifier", nfsNull[:len(nfsNull)-9], ErrMalformed},
		{"credential of 401 bytes", "00000001 00000000 00000002 000186a3 00000003 00000000 00000001" + tooLong, errBadCred},
		{"credential of 4 GiB", "00000001 00000000 00000002 000186a3 00000003 00000000 00000001 ffffffff", errBadCred},
		{"verifier of 401 bytes", "00000001 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000" + tooLong, errBadVerf},
		{"credential cut off", "00000001 00000000 00000002 000186a3 00000003 00000000 00000001 00000008 00000000", ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var call Call
			n, err := DecodeCall(unhex(t, c.msg), &call)
			if n != 0 || !errors.Is(err, c.want) {
				t.Errorf("%d, %v; want %v", n, err, c.want)
			}
			if _, denied := errors.AsType[*DeniedError](err); denied && call.XID != 1 && call.XID != 0x6b8b4567 {
				t.Errorf("denied without an XID: %#x", call.XID)
			}
		})
	}
}

func TestMessageType(t *testing.T) {
	for _, c := range []struct {
		msg   string
		xid   uint32
		mtype MsgType
		ok    bool
	}{
		{nfsNull, 0x6b8b4567, MsgCall, true},
		{"00000007 00000001", 7, MsgReply, true},
		{"00000007 00000002", 7, 2, false},
		{"00000007 000000", 0, 0, false},
		{"", 0, 0, false},
	} {
		xid, mtype, ok := MessageType(unhex(t, c.msg))
		if xid != c.xid || mtype != c.mtype || ok != c.ok {
			t.Errorf("%s: %d, %d, %v", c.msg, xid, mtype, ok)
		}
	}
}

// FuzzDecodeCall decodes and encodes the same bytes with another
// implementation.
func FuzzDecodeCall(f *testing.F) {
	f.Add(unhex(f, nfsNull))
	f.Add(unhex(f, strings.Replace(nfsNull, "00000002", "00000001", 1)))
	sys := AuthSys{MachineName: []byte("client"), UID: 1000, GIDs: []uint32{1, 2}}
	f.Add(AppendCall(nil, &Call{XID: 1, Program: 2, Version: 3, Procedure: 4, Cred: Auth{FlavorSys, sys.Append(nil)}, Verf: Auth{FlavorNone, []byte("odd")}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var c Call
		n, err := DecodeCall(msg, &c)
		var oracle rpcv2.RpcMsg
		_, oracleErr := oracle.ReadFrom(bytes.NewReader(msg))
		call, _ := oracle.Body.(*rpcv2.RpcMsgBody_CALL)
		if err != nil {
			if oracleErr == nil && call != nil && call.Cbody.Rpcvers == RPCVersion {
				t.Fatalf("%v, but it is a call: %+v", err, call)
			}
			return
		}
		encoded := AppendCall(nil, &c) // as msg, but with roundup of zeros
		if n != len(encoded) {
			t.Fatalf("%d bytes decoded, %d encoded", n, len(encoded))
		}
		if _, err := oracle.ReadFrom(bytes.NewReader(encoded)); err != nil {
			t.Fatalf("encoded %x: %v", encoded, err)
		}
		var again bytes.Buffer
		if _, err := oracle.WriteTo(&again); err != nil || !bytes.Equal(again.Bytes(), encoded) {
			t.Fatalf("%x, want %x, %v", encoded, again.Bytes(), err)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	msg := unhex(t, nfsNull)
	denied := unhex(t, strings.Replace(nfsNull, "00000002", "00000009", 1))
	buf := make([]byte, 0, 256)
	var c Call
	var h ReplyHeader
	var sys AuthSys
	body := (&AuthSys{MachineName: []byte("client"), GIDs: []uint32{1, 2, 3}}).Append(nil)
	for name, f := range map[string]func() error{
		"call": func() error {
			_, err := DecodeCall(msg, &c)
			buf = AppendCall(buf[:0], &c)
			return err
		},
		"denied call": func() error {
			if _, err := DecodeCall(denied, &c); !errors.Is(err, errRPCMismatch) {
				return errors.New("not denied")
			}
			buf = AppendError(buf[:0], c.XID, errRPCMismatch)
			return nil
		},
		"reply": func() error {
			buf = AppendAcceptedReply(buf[:0], 7)
			_, err := DecodeReply(buf, &h)
			return err
		},
		"AUTH_SYS": func() error { return sys.Decode(body) },
	} {
		var err error
		if allocs := testing.AllocsPerRun(100, func() { err = f() }); allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations, want none; %v", name, allocs, err)
		}
	}
}

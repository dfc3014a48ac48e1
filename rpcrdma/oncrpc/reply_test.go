package oncrpc

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
)

func TestReplies(t *testing.T) {
	const verf = " 00000000 00000000 "
	for _, c := range []struct {
		name string
		got  []byte
		want string
		err  error // what DecodeReply makes of it
	}{
		{"success", AppendAcceptedReply(nil, 7), "00000007 00000001 00000000" + verf + "00000000", nil},
		{"program unavailable", AppendAcceptError(nil, 7, &AcceptError{Stat: ProgUnavail}),
			"00000007 00000001 00000000" + verf + "00000001", &AcceptError{Stat: ProgUnavail}},
		{"program mismatch", AppendAcceptError(nil, 7, &AcceptError{Stat: ProgMismatch, Low: 3, High: 4}),
			"00000007 00000001 00000000" + verf + "00000002 00000003 00000004", &AcceptError{Stat: ProgMismatch, Low: 3, High: 4}},
		{"procedure unavailable", AppendAcceptError(nil, 7, &AcceptError{Stat: ProcUnavail}),
			"00000007 00000001 00000000" + verf + "00000003", &AcceptError{Stat: ProcUnavail}},
		{"garbage arguments", AppendAcceptError(nil, 7, &AcceptError{Stat: GarbageArgs}),
			"00000007 00000001 00000000" + verf + "00000004", &AcceptError{Stat: GarbageArgs}},
		{"system error", AppendAcceptError(nil, 7, &AcceptError{Stat: SystemErr}),
			"00000007 00000001 00000000" + verf + "00000005", &AcceptError{Stat: SystemErr}},
		{"RPC mismatch", AppendDenied(nil, 7, &DeniedError{Stat: RPCMismatch, Low: 2, High: 2}),
			"00000007 00000001 00000001 00000000 00000002 00000002", &DeniedError{Stat: RPCMismatch, Low: 2, High: 2}},
		{"authentication", AppendDenied(nil, 7, &DeniedError{Stat: AuthError, Auth: AuthTooWeak}),
			"00000007 00000001 00000001 00000001 00000005", &DeniedError{Stat: AuthError, Auth: AuthTooWeak}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if want := unhex(t, c.want); !bytes.Equal(c.got, want) {
				t.Fatalf("encoded %x, want %x", c.got, want)
			}
			var h ReplyHeader
			n, err := DecodeReply(append(c.got, 1, 2, 3, 4), &h)
			if n != len(c.got) || h.XID != 7 || !reflect.DeepEqual(err, c.err) {
				t.Errorf("decoded %d bytes, %+v, %v; want %v", n, h, err, c.err)
			}
			if c.err != nil && !bytes.Equal(AppendError(nil, 7, fmt.Errorf("wrapped: %w", c.err)), c.got) {
				t.Errorf("AppendError gives %x", AppendError(nil, 7, c.err))
			}
			for i := range c.got {
				if _, err := DecodeReply(c.got[:i], &h); !errors.Is(err, ErrMalformed) {
					t.Errorf("first %d bytes: %v", i, err)
				}
			}
		})
	}
	if got := len(AppendAcceptedReply(nil, 1)); got != AcceptedReplySize {
		t.Errorf("AcceptedReplySize is %d, but %d bytes are appended", AcceptedReplySize, got)
	}
}

func TestAppendErrorOfOthers(t *testing.T) {
	want := AppendAcceptError(nil, 9, &AcceptError{Stat: SystemErr})
	for _, err := range []error{errors.New("disk on fire"), &AcceptError{Stat: Success}, &PanicError{Value: 1}, (*AcceptError)(nil), (*DeniedError)(nil)} {
		if got := AppendError(nil, 9, err); !bytes.Equal(got, want) {
			t.Errorf("%v: %x, want SYSTEM_ERR", err, got)
		}
	}
}

func TestDecodeReplyRefuses(t *testing.T) {
	for _, msg := range []string{
		nfsNull, // a call
		"00000007 00000001 00000002",
		"00000007 00000001 00000000 00000000 00000000 00000006",          // accept_stat 6
		"00000007 00000001 00000001 00000002 00000000",                   // reject_stat 2
		"00000007 00000001 00000000 00000000 ffffffff 00000000 00000000", // verifier of 4 GiB
	} {
		var h ReplyHeader
		if _, err := DecodeReply(unhex(t, msg), &h); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", msg, err)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"oncrpc: PROC_UNAVAIL": &AcceptError{Stat: ProcUnavail},
		"oncrpc: 77":           &AcceptError{Stat: 77},
		"oncrpc: PROG_MISMATCH, versions 3 to 4 are served": &AcceptError{Stat: ProgMismatch, Low: 3, High: 4},
		"oncrpc: RPC_MISMATCH, versions 2 to 2 are spoken":  errRPCMismatch,
		"oncrpc: AUTH_ERROR, AUTH_BADCRED":                  errBadCred,
		"oncrpc: handler panicked: boom":                    &PanicError{Value: "boom"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err.Error(), want)
		}
	}
}

// FuzzDecodeReply decodes the same bytes with another implementation.
func FuzzDecodeReply(f *testing.F) {
	f.Add(AppendAcceptedReply(nil, 1))
	f.Add(AppendError(nil, 2, &AcceptError{Stat: ProgMismatch, Low: 1, High: 9}))
	f.Add(AppendError(nil, 3, errBadVerf))
	f.Add(AppendError(nil, 4, errRPCMismatch))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var h ReplyHeader
		n, err := DecodeReply(msg, &h)
		var oracle rpcv2.RpcMsg
		oracleN, oracleErr := oracle.ReadFrom(bytes.NewReader(msg))
		reply, _ := oracle.Body.(*rpcv2.RpcMsgBody_REPLY)
		if errors.Is(err, ErrMalformed) {
			if oracleErr != nil || reply == nil {
				return
			}
			accepted, _ := reply.Rbody.(*rpcv2.ReplyBody_MSG_ACCEPTED)
			if accepted == nil || uint32(accepted.Areply.ReplyData.GetStat()) <= uint32(SystemErr) {
				t.Fatalf("%v, but it is a reply: %+v", err, reply)
			}
			return
		}
		if err == nil {
			if oracleErr == nil && (int64(n) != oracleN || h.XID != oracle.Xid) {
				t.Fatalf("%d bytes of %+v, want %d of %+v", n, h, oracleN, oracle)
			}
			return
		}
		if len(h.Verf.Body) == 0 && h.Verf.Flavor == FlavorNone && !bytes.Equal(AppendError(nil, h.XID, err), msg[:n]) {
			t.Fatalf("%v encodes to %x, was %x", err, AppendError(nil, h.XID, err), msg[:n])
		}
	})
}

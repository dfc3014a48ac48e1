package verbs

import (
	"errors"
	"fmt"
	"testing"
)

// The statuses have the numbers of libibverbs' enum ibv_wc_status, on which
// the rdmacore provider relies, and all have words.
func TestWCStatus(t *testing.T) {
	for status, number := range map[WCStatus]uint8{
		WCSuccess: 0, WCLocLenErr: 1, WCLocProtErr: 4, WCWRFlushErr: 5, WCMWBindErr: 6, WCLocAccessErr: 8,
		WCRemInvReqErr: 9, WCRemAccessErr: 10, WCRemOpErr: 11, WCRetryExcErr: 12, WCRNRRetryExcErr: 13,
		WCRemAbortErr: 16, WCFatalErr: 19, WCRespTimeoutErr: 20, WCGeneralErr: 21,
	} {
		if uint8(status) != number {
			t.Errorf("%v is %d, not %d", status, status, number)
		}
	}
	seen := map[string]WCStatus{}
	for s := WCSuccess; s <= WCGeneralErr; s++ {
		if was, twice := seen[s.String()]; twice || s.String() == "" {
			t.Errorf("status %d is called %q like %d", s, s, was)
		}
		seen[s.String()] = s
	}
	if got := (WCGeneralErr + 1).String(); got != "unknown status" {
		t.Errorf("a status beyond the last is called %q", got)
	}
	if got := WCRNRRetryExcErr.String(); got != "receiver not ready retry count exceeded" {
		t.Errorf("WCRNRRetryExcErr is called %q", got)
	}
}

func TestBinds(t *testing.T) {
	const read, write, both, local, bind = AccessRemoteRead, AccessRemoteWrite, AccessRemoteRead | AccessRemoteWrite, AccessLocalWrite, AccessMWBind
	for _, c := range []struct {
		region, window Access
		want           bool
	}{
		{read, read, true}, {read, write, false}, {read, both, false}, {local | write, write, true}, {local | both, both, true},
		{local, read, false}, {bind, read, true}, {bind, write, false}, {bind, both, false}, {bind | read, read, true},
		{local | bind, read, true}, {local | bind, write, true}, {local | bind, both, true},
	} {
		if got := c.region.Binds(c.window); got != c.want {
			t.Errorf("region of rights %#x, window of rights %#x: %t", c.region, c.window, got)
		}
	}
}

func TestSinkAccess(t *testing.T) {
	for remote, want := range map[bool]Access{false: AccessLocalWrite, true: AccessLocalWrite | AccessRemoteWrite} {
		a := DeviceAttr{ReadSinkRemoteWrite: remote}
		if got := a.SinkAccess(); got != want {
			t.Errorf("remote write %t: %#x, want %#x", remote, got, want)
		}
	}
}

func TestTerminateError(t *testing.T) {
	e := &TerminateError{Layer: 1, Type: 2, Code: 0x0a, Reason: "no buffer"}
	if got, want := e.Error(), "local terminate: no buffer (layer 1, type 2, code 0x0a)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	e.Remote = true
	if got, want := e.Error(), "remote terminate: no buffer (layer 1, type 2, code 0x0a)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	var as *TerminateError
	if !errors.As(fmt.Errorf("queue pair: %w", e), &as) || as != e {
		t.Error("lost in wrapping")
	}
}

func TestLiveTotal(t *testing.T) {
	if n := (Live{}).Total(); n != 0 {
		t.Errorf("nothing counts %d", n)
	}
	if n := (Live{PDs: 1, MRs: 20, MWs: 300, CQs: 4000, QPs: 50000}).Total(); n != 54321 {
		t.Errorf("total %d", n)
	}
}

func TestNoReceive(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&TerminateError{Remote: true, Layer: 1, Type: 2, Code: 2}, true},
		{&TerminateError{Remote: true, Layer: 1, Type: 2, Code: 5}, true},
		{&TerminateError{Layer: 1, Type: 2, Code: 2}, false}, // ours
		{&TerminateError{Remote: true, Layer: 1, Type: 2, Code: 3}, false},
		{&TerminateError{Remote: true, Layer: 1, Type: 1, Code: 2}, false},
		{&TerminateError{Remote: true, Layer: 0, Type: 2, Code: 5}, false},
		{StatusError(WCRNRRetryExcErr), true},
		{StatusError(WCRemInvReqErr), true},
		{StatusError(WCRemAccessErr), false},
		{ErrDisconnected, false},
	} {
		if got := errors.Is(fmt.Errorf("wrapped: %w", c.err), ErrNoReceive); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

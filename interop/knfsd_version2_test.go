package interop

import (
	"errors"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// offering2 are settings under which connections begin with version 2.
func offering2() rpcrdma.Settings {
	set := rpcrdma.DefaultSettings()
	set.Extensions |= rpcrdma.ExtV2
	return set
}

// offeringAll are settings with every extension of version 2 and receives in
// segments, all of which must come to nothing with a peer of version 1.
func offeringAll() rpcrdma.Settings {
	set := offering2()
	set.Extensions |= rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtContinuation | rpcrdma.ExtSendDDP
	set.InlineReceiveSize = 33 * 1024
	return set
}

// testVersionRefused offers version 2 to a server that speaks version 1 alone:
// it says ERR_VERS, and the call is made in version 1 on the same connection,
// with many others behind it. Where version 2 is required, nothing is.
func testVersionRefused(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	c := s.dialWith(ctx, t, p, s.address, rpcrdma.DialConfig{Settings: new(offering2()), Reconnect: &rpcrdma.Reconnect{}})
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			if _, err := c.do(ctx, nfsCall{version: 3}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if info := c.Info(); info.RPCVersion != 1 || info.Connects != 1 || info.CreditsGranted != 64 || info.InlineSend != 4096 {
		t.Errorf("in force: %+v, want version 1 on one connection", info)
	}
	if st := c.Stats(); st.Replies != 64 || st.Errors+st.BadReplies+st.Dropped+st.Ignored != 0 {
		t.Errorf("%+v, want 64 replies and nothing wrong", st)
	}

	set := offering2()
	set.Extensions |= rpcrdma.ExtV2Only
	required := s.dial(ctx, t, p, s.address, set)
	if _, err := required.do(ctx, nfsCall{version: 3}); !errors.Is(err, rpcrdma.ErrNoVersion) {
		t.Errorf("with version 2 required: %v, want %v", err, rpcrdma.ErrNoVersion)
	}
}

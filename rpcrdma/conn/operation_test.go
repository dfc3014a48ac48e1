package conn

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// optUnknown is an operation that no text describes.
const optUnknown = rpcrdma2.OptType(200)

func setV2(t *testing.T, s *settings.Settings, o map[string][]string) {
	t.Helper()
	for v, e := range map[string]settings.Extensions{"off": 0, "on": settings.ExtV2, "required": settings.ExtV2Only} {
		if w := o["v2"]; len(w) > 0 && w[0] == v {
			s.Extensions = s.Extensions&^(settings.ExtV2|settings.ExtV2Only) | e
		}
	}
	switch option(t, o, "xmit", -1) {
	case 0: // what one message says, in one transmission
		s.Extensions |= settings.ExtXmit
	case 1:
		s.Extensions |= settings.ExtXmit | settings.ExtContinuation
	}
}

// TestHeaderOfVersion: Append and Size are those of the header's version, and
// decode takes the versions that are spoken.
func TestHeaderOfVersion(t *testing.T) {
	for _, c := range []struct {
		version uint32
		spoken  versions
		size    int
		want    error
	}{
		{1, speaks1, 28, nil},
		{1, speaksAll, 28, nil},
		{1, speaks2, 28, rpcrdma1.ErrVersion},
		{2, speaks1, 32, rpcrdma1.ErrVersion},
		{2, speaksAll, 32, nil},
		{2, speaks2, 32, nil},
		{0, speaksAll, 28, rpcrdma1.ErrVersion},
		{3, speaksAll, 28, rpcrdma1.ErrVersion},
		{1<<32 - 1, speaks2, 28, rpcrdma1.ErrVersion},
	} {
		h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: 7, Version: c.version}, Direction: rpcrdma2.Reply}}
		b := h.Append(nil)
		got := Header{rpcrdma2.Header{Direction: rpcrdma2.Reply, Info: b}}
		n, err := got.decode(b, c.spoken)
		if len(b) != c.size || h.Size() != c.size || !errors.Is(err, c.want) {
			t.Errorf("version %d where %b are spoken: %d bytes, size %d, %v", c.version, c.spoken, len(b), h.Size(), err)
		}
		if err == nil && (n != c.size || got.Direction != h.Direction*rpcrdma2.Direction(c.version-1) || got.Info != nil) {
			t.Errorf("version %d: %d bytes, %+v", c.version, n, got)
		}
		if _, err = got.decode(b[:15], c.spoken); !errors.Is(err, rpcrdma1.ErrShort) {
			t.Errorf("15 bytes: %v", err)
		}
	}
}

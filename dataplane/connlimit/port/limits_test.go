package port

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

func TestLimitsOver(t *testing.T) {
	d := connlimit.Limits{Total: 256, PerKey: 64, KeyGrace: 1, Reserved: 32, Idle: time.Minute, HalfOpen: time.Second}
	for _, c := range []struct {
		l    Limits
		want connlimit.Limits
	}{
		{Limits{}, d},
		{Limits{Connections: 16}, connlimit.Limits{Total: 16, PerKey: 4, KeyGrace: 1, Reserved: 4, Idle: time.Minute, HalfOpen: time.Second}},
		{Limits{Connections: 1}, connlimit.Limits{Total: 1, PerKey: 1, KeyGrace: 1, Idle: time.Minute, HalfOpen: time.Second}},
		{Limits{ConnectionsPerPeer: 100, Reserved: 300, Idle: time.Hour},
			connlimit.Limits{Total: 256, PerKey: 100, KeyGrace: 1, Reserved: 255, Idle: time.Hour, HalfOpen: time.Second}},
	} {
		if got := c.l.Over(d); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.l, got, c.want)
		}
	}
}

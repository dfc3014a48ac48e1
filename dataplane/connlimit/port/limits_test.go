package port

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

func TestLimitsCheck(t *testing.T) {
	for _, c := range []struct {
		l     Limits
		limit string // that is out of range, or ""
	}{
		{Limits{}, ""},
		{Limits{Connections: 65536, ConnectionsPerPeer: 65536, Reserved: 65535, Idle: 720 * time.Hour}, ""},
		{Limits{Connections: -1}, "connections"},
		{Limits{Connections: 65537}, "connections"},
		{Limits{ConnectionsPerPeer: 65537}, "connections_per_peer"},
		{Limits{Reserved: 65537}, "reserved"},
		{Limits{Connections: 8, Reserved: 8}, "reserved"},
		{Limits{Idle: time.Millisecond}, "idle"},
		{Limits{Idle: 721 * time.Hour}, "idle"},
	} {
		err := c.l.Check()
		bad, ok := errors.AsType[*LimitError](err)
		if ok != (c.limit != "") || ok && bad.Limit != c.limit {
			t.Errorf("%+v: %v, want one about %q", c.l, err, c.limit)
		}
	}
}

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

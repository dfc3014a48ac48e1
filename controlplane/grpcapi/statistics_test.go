package grpcapi

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestEveryStatisticIsTold: each field of the answer has a value, and of the
// counters no two the same.
func TestEveryStatisticIsTold(t *testing.T) {
	var c dataplane.ConnInfo
	stats := reflect.ValueOf(&c.Stats).Elem()
	for i := range stats.NumField() {
		stats.Field(i).SetUint(uint64(100 + i))
	}
	now := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	c.ConnectTime, c.LastActive = 3*time.Second, now.Add(-4*time.Second)
	c.Sizes.Calls[2], c.Sizes.Replies[0] = 7, 8
	seen := map[float64]protoreflect.Name{}
	m := transportStatistics(&c, now).ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if !m.Has(fd) {
			t.Errorf("%s is not set", fd.Name())
		}
		if fd.IsList() {
			continue
		}
		v := m.Get(fd).Float()
		if other, twice := seen[v]; twice {
			t.Errorf("%s is %v like %s", fd.Name(), v, other)
		}
		seen[v] = fd.Name()
	}
	if seen[3] != "connect_seconds" || seen[4] != "idle_seconds" {
		t.Errorf("times: %v", seen)
	}
}

func TestSizeCounts(t *testing.T) {
	var counts rpcrdma.SizeCounts
	if got := sizeCounts(&counts); len(got) != 0 {
		t.Errorf("nothing is %v", got)
	}
	counts[0], counts[1], counts[4] = 1, 2, 3
	want := []*rdmadv1.SizeCount{{Count: 1}, {From: 1, To: 1, Count: 2}, {From: 2, To: 3}, {From: 4, To: 7}, {From: 8, To: 15, Count: 3}}
	got := sizeCounts(&counts)
	for i := range want {
		if len(got) != len(want) || !proto.Equal(got[i], want[i]) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	counts = rpcrdma.SizeCounts{rpcrdma.SizeBuckets - 1: 1}
	if got := sizeCounts(&counts); len(got) != rpcrdma.SizeBuckets {
		t.Errorf("%d buckets, want all", len(got))
	}
}

// TestIdleOfUnknown: a connection that never told when it was active is not
// idle since the year 1.
func TestIdleOfUnknown(t *testing.T) {
	if s := transportStatistics(&dataplane.ConnInfo{}, time.Now()).GetIdleSeconds(); s != 0 {
		t.Errorf("idle for %v s", s)
	}
}

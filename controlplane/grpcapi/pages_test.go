package grpcapi_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// crowd is a plane with so many connections, each third on another listener.
func crowd(n int) *planetest.Plane {
	p := &planetest.Plane{}
	p.Listen("nfs", "127.0.0.1:20049")
	p.Listen("other", "127.0.0.1:20050")
	for i := 1; i <= n; i++ {
		listener := "nfs"
		if i%3 == 0 {
			listener = "other"
		}
		p.Connect(planetest.Peer{ID: fmt.Sprint(i), Listener: listener, Address: fmt.Sprintf("10.0.%d.1:%d", i%5, 1000+i)})
	}
	return p
}

// list reads all pages and runs between after each.
func list(t *testing.T, c rdmadv1.ConnectionServiceClient, req *rdmadv1.ListConnectionsRequest, between func()) (ids []string, pages int) {
	t.Helper()
	for {
		res := have(c.ListConnections(t.Context(), req))(t)
		if n := len(res.GetConnections()); req.GetPageSize() > 0 && n > int(req.GetPageSize()) {
			t.Fatalf("page of %d", n)
		}
		for _, one := range res.GetConnections() {
			ids = append(ids, one.GetId())
		}
		pages++
		if res.GetNextPageToken() == "" {
			return ids, pages
		}
		req.PageToken = res.GetNextPageToken()
		between()
	}
}

func TestPagesOfConnections(t *testing.T) {
	p := crowd(25)
	c := rdmadv1.NewConnectionServiceClient(start(t, p, nil, 64).client)
	for _, size := range []uint32{1, 5, 24, 25, 26, 0} {
		ids, pages := list(t, c, &rdmadv1.ListConnectionsRequest{PageSize: size}, func() {})
		if len(ids) != 25 || ids[0] != "1" || ids[9] != "10" || ids[24] != "25" {
			t.Errorf("pages of %d: %v", size, ids)
		}
		if want := 1 + (24 / int(max(size, 25))); size >= 25 && pages != want {
			t.Errorf("pages of %d: %d pages", size, pages)
		}
	}
	next := 26
	ids, _ := list(t, c, &rdmadv1.ListConnectionsRequest{PageSize: 5}, func() {
		p.Disconnect(fmt.Sprint(next-25), "gone")
		p.Connect(planetest.Peer{ID: fmt.Sprint(next), Listener: "nfs", Address: "10.9.9.9:1"})
		next++
	})
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(ids) || len(ids) < 25 {
		t.Errorf("while connections come and go: %v", ids)
	}
}

func TestConnectionFilters(t *testing.T) {
	p := crowd(30)
	p.Connect(planetest.Peer{ID: "31", Listener: "nfs", Address: "[fe80::7%eth0]:1000"})
	c := rdmadv1.NewConnectionServiceClient(start(t, p, nil, 64).client)
	for _, f := range []struct {
		listener, peer string
		want           int
	}{
		{"nfs", "", 21}, {"other", "", 10}, {"none", "", 0}, {"", "10.0.1.0/24", 6}, {"", "10.0.1.1", 6}, {"nfs", "10.0.0.0/8", 20},
		{"", "fe80::/10", 1}, {"", "2001:db8::/32", 0},
	} {
		ids, _ := list(t, c, &rdmadv1.ListConnectionsRequest{Listener: f.listener, Peer: f.peer, PageSize: 4}, func() {})
		if len(ids) != f.want {
			t.Errorf("%+v: %v", f, ids)
		}
	}
	first := have(c.ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{PageSize: 4}))(t)
	for _, req := range []*rdmadv1.ListConnectionsRequest{
		{Peer: "10.0.0"}, {PageToken: "?"}, {PageToken: "Zm9v"}, {PageSize: 10001},
		{PageToken: first.GetNextPageToken(), Listener: "nfs"}, // of another list
		{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"id", "nothing"}}},
	} {
		if _, err := c.ListConnections(t.Context(), req); status.Code(err) != codes.InvalidArgument || detail(status.Convert(err)) == "" {
			t.Errorf("%v: %v", req, err)
		}
	}
}

func TestReadMask(t *testing.T) {
	c := rdmadv1.NewConnectionServiceClient(start(t, smallPlane(), nil, 16).client)
	mask := &fieldmaskpb.FieldMask{Paths: []string{"id", "calls"}}
	want := &rdmadv1.Connection{Id: "1", Calls: 3}
	all, err := c.ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{ReadMask: mask})
	if err != nil || !proto.Equal(all.GetConnections()[0], want) {
		t.Errorf("list: %v, %v", all, err)
	}
	one, err := c.GetConnection(t.Context(), &rdmadv1.GetConnectionRequest{Id: "1", ReadMask: mask})
	if err != nil || !proto.Equal(one.GetConnection(), want) || one.GetTransport() == nil {
		t.Errorf("get: %v, %v", one, err)
	}
	stream := have(c.WatchConnections(t.Context(), &rdmadv1.WatchConnectionsRequest{ReadMask: mask, Listener: "nfs"}))(t)
	e, err := stream.Recv()
	if err != nil || !proto.Equal(e.GetConnection(), want) {
		t.Errorf("watch: %v, %v", e, err)
	}
	full, err := c.GetConnection(t.Context(), &rdmadv1.GetConnectionRequest{Id: "1", ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"*"}}})
	if err != nil || full.GetConnection().GetPeer() == "" {
		t.Errorf("all: %v, %v", full, err)
	}
}

// TestWatchOneListener: nothing of other listeners is told of.
func TestWatchOneListener(t *testing.T) {
	p := crowd(3)
	c := rdmadv1.NewConnectionServiceClient(start(t, p, nil, 64).client)
	stream := have(c.WatchConnections(t.Context(), &rdmadv1.WatchConnectionsRequest{Listener: "other"}))(t)
	expect := func(id string, what rdmadv1.WatchConnectionsResponse_Type) {
		t.Helper()
		e, err := stream.Recv()
		if err != nil || e.GetConnection().GetId() != id || e.GetType() != what {
			t.Fatalf("%v, %v", e, err)
		}
	}
	expect("3", rdmadv1.WatchConnectionsResponse_EXISTING)
	p.Disconnect("1", "gone")
	p.Connect(planetest.Peer{ID: "4", Listener: "nfs", Address: "10.0.0.1:1"})
	p.Connect(planetest.Peer{ID: "5", Listener: "other", Address: "10.0.0.1:2"})
	expect("5", rdmadv1.WatchConnectionsResponse_UP)
	p.Disconnect("3", "gone")
	expect("3", rdmadv1.WatchConnectionsResponse_DOWN)
}

func TestDrainAndClose(t *testing.T) {
	c := rdmadv1.NewConnectionServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, step := range []struct {
		id   string
		code codes.Code
		cut  bool
	}{{"9", codes.NotFound, false}, {"1", codes.OK, false}, {"1", codes.NotFound, false}, {"2", codes.OK, true}} {
		res, err := c.DrainConnection(t.Context(), &rdmadv1.DrainConnectionRequest{
			Id: step.id, Deadline: durationpb.New(time.Millisecond),
		})
		if status.Code(err) != step.code || res.GetCut() != step.cut {
			t.Errorf("drain %s: %v, %v", step.id, res, err)
		}
	}
	if _, err := c.DrainConnection(t.Context(), &rdmadv1.DrainConnectionRequest{Id: "1", Deadline: durationpb.New(-1)}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("negative deadline: %v", err)
	}
	c = rdmadv1.NewConnectionServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, step := range []struct {
		id   string
		code codes.Code
	}{{"9", codes.NotFound}, {"1", codes.OK}, {"1", codes.NotFound}} {
		if _, err := c.CloseConnection(t.Context(), &rdmadv1.CloseConnectionRequest{Id: step.id}); status.Code(err) != step.code {
			t.Errorf("close %s: %v", step.id, err)
		}
	}
}

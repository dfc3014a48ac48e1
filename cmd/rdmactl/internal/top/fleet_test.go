package top

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// node is a node that reported n calls a second.
func node(name string, n float64, change func(*rdmadv1.FleetNode)) *rdmadv1.FleetNode {
	out := &rdmadv1.FleetNode{
		Name: name, State: rdmadv1.FleetNode_UP, Labels: map[string]string{"rack": "r" + name}, Healthy: true, AssignedRevision: 15, AppliedRevision: 15,
		Status: &rdmadv1.FleetStatus{CallsPerSecond: n, P99: durationpb.New(time.Duration(n) * time.Microsecond), Connections: 12, Time: timestamppb.New(born.Add(time.Duration(n) * time.Second))},
	}
	if change != nil {
		change(out)
	}
	return out
}

func event(t rdmadv1.WatchNodesResponse_Type, n *rdmadv1.FleetNode) *rdmadv1.WatchNodesResponse {
	return &rdmadv1.WatchNodesResponse{Type: t, Node: n}
}

// fleetView is a model that has listed three nodes.
func fleetView(width, height int) *fleetModel {
	m := newFleetModel(&Options{
		Addr: "127.0.0.1:20050", Sort: "calls", Explain: func(err error) string { return err.Error() },
		Lost: func(_ error, now time.Time) time.Time { return now.Add(-40 * time.Second) },
	})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	for _, n := range []*rdmadv1.FleetNode{
		node("a", 120, nil),
		node("b", 4000, func(n *rdmadv1.FleetNode) {
			n.Healthy, n.Drift, n.Status.ErrorsPerSecond, n.Status.Conditions = false, true, 2.5, []*rdmadv1.Condition{{}, {}}
		}),
		node("c", 9000, func(n *rdmadv1.FleetNode) { n.State = rdmadv1.FleetNode_DOWN }),
	} {
		m.Update(event(rdmadv1.WatchNodesResponse_EXISTING, n))
	}
	m.Update(event(rdmadv1.WatchNodesResponse_LISTED, nil))
	return m
}

func (m *fleetModel) press(keys ...string) {
	for _, k := range keys {
		if code, ok := named[k]; ok {
			m.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range k {
			m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

func (m *fleetModel) order() string {
	var names []string
	for _, r := range m.visible {
		names = append(names, r.GetName())
	}
	return strings.Join(names, " ")
}

func TestFleetView(t *testing.T) {
	for _, size := range [][2]int{{100, 10}, {60, 8}} {
		m := fleetView(size[0], size[1])
		for i := range 8 {
			m.Update(event(rdmadv1.WatchNodesResponse_CHANGED, node("a", float64(130+10*i), nil)))
		}
		s := NewScreen(size[0], size[1])
		s.Write([]byte(strings.ReplaceAll(m.View().Content, "\n", "\r\n")))
		file := filepath.Join("testdata", fmt.Sprintf("fleet-%dx%d.txt", size[0], size[1]))
		if *update {
			if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || s.String() != string(want) {
			t.Errorf("%v, got\n%s", err, s.String())
		}
	}
}

// Nodes are sorted, those that are down last, filtered by name and label, added, changed and
// removed, also by a new list; a pause holds what comes.
func TestFleetRows(t *testing.T) {
	m := fleetView(100, 10)
	check := func(want string) {
		t.Helper()
		if got := m.order(); got != want {
			t.Errorf("nodes %q, want %q", got, want)
		}
	}
	check("b a c")
	m.press("r")
	check("c a b")
	m.press("r", "left", "left")
	check("a b c")
	m.press("/", "rack=rb", "enter")
	check("b")
	m.press("esc")
	m.press("space")
	m.Update(event(rdmadv1.WatchNodesResponse_CHANGED, node("d", 1, nil)))
	m.Update(event(rdmadv1.WatchNodesResponse_REMOVED, &rdmadv1.FleetNode{Name: "a"}))
	check("a b c")
	if text := m.View().Content; !strings.Contains(text, "paused, 2 events behind") {
		t.Error(text)
	}
	m.press("space")
	check("b c d")
	m.Update(offline{errors.New("etcd is away"), born})
	if text := m.View().Content; !strings.Contains(text, "no news since "+born.Add(-40*time.Second).Local().Format(time.TimeOnly)) || !strings.Contains(text, "etcd is away") {
		t.Error(text)
	}
	m.Update(event(rdmadv1.WatchNodesResponse_EXISTING, node("d", 1, nil)))
	m.Update(event(rdmadv1.WatchNodesResponse_LISTED, nil))
	check("d")
}

func TestFleetAnySize(t *testing.T) {
	m := fleetView(80, 24)
	for _, width := range []int{1, 7, 20, 41, 80, 130} {
		for _, height := range []int{1, 2, 5, 24} {
			m.Update(tea.WindowSizeMsg{Width: width, Height: height})
			lines := strings.Split(m.View().Content, "\n")
			if len(lines) != height {
				t.Fatalf("%d lines in a terminal of %d", len(lines), height)
			}
			for _, l := range lines {
				if w := lipgloss.Width(l); w > width {
					t.Fatalf("%d columns in a terminal of %d: %q", w, width, l)
				}
			}
		}
	}
}

// watched ends each watch after one event.
type watched struct {
	rdmadv1.UnimplementedFleetServiceServer
	tokens chan string
}

func (w *watched) WatchNodes(req *rdmadv1.WatchNodesRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchNodesResponse]) error {
	if err := stream.Send(&rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_LISTED, ResumeToken: req.GetResumeToken() + "x"}); err != nil {
		return err
	}
	w.tokens <- req.GetResumeToken()
	return status.Error(codes.Unavailable, "etcd is away")
}

// The feed says when it sees nothing, and continues after the last event.
func TestFleetFeed(t *testing.T) {
	l := bufconn.Listen(1 << 16)
	server, w := grpc.NewServer(), &watched{tokens: make(chan string, 8)}
	rdmadv1.RegisterFleetServiceServer(server, w)
	served := make(chan error)
	go func() { served <- server.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleetFeed{client: rdmadv1.NewFleetServiceClient(conn)}
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		feedAll(ctx, conn, f.follow, func(msg tea.Msg) {
			switch msg := msg.(type) {
			case offline:
				got = append(got, "offline")
			case *rdmadv1.WatchNodesResponse:
				if got = append(got, msg.GetResumeToken()); msg.GetResumeToken() == "xx" {
					cancel()
				}
			}
		})
	}()
	<-done
	if text := strings.Join(got, " "); !strings.HasPrefix(text, "x offline xx") {
		t.Error(text)
	}
	if first, second := <-w.tokens, <-w.tokens; first != "" || second != "x" {
		t.Errorf("tokens %q, %q", first, second)
	}
	conn.Close()
	server.Stop()
	<-served
}

// brokenLists are the events of each watch, which then breaks off.
type brokenLists struct {
	rdmadv1.FleetServiceClient
	grpc.ClientStream
	events [][]*rdmadv1.WatchNodesResponse
}

func (b *brokenLists) WatchNodes(context.Context, *rdmadv1.WatchNodesRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[rdmadv1.WatchNodesResponse], error) {
	return b, nil
}

func (b *brokenLists) Recv() (*rdmadv1.WatchNodesResponse, error) {
	if len(b.events[0]) == 0 {
		b.events = b.events[1:]
		return nil, status.Error(codes.Unavailable, "etcd is away")
	}
	e := b.events[0][0]
	b.events[0] = b.events[0][1:]
	return e, nil
}

// A node that only a list which broke off had is not shown: it left before the next one.
func TestFleetListBreaksOff(t *testing.T) {
	existing := func(name string) *rdmadv1.WatchNodesResponse {
		return event(rdmadv1.WatchNodesResponse_EXISTING, node(name, 1, nil))
	}
	f := &fleetFeed{client: &brokenLists{events: [][]*rdmadv1.WatchNodesResponse{
		{existing("left")},
		{existing("stays"), event(rdmadv1.WatchNodesResponse_LISTED, nil)},
	}}}
	m := newFleetModel(&Options{Sort: "node", Explain: func(err error) string { return err.Error() }})
	for range 2 {
		if err := f.follow(t.Context(), func(msg tea.Msg) { m.Update(msg) }); status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
	}
	if got := m.order(); got != "stays" {
		t.Errorf("nodes %q", got)
	}
}

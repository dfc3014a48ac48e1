package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// largeFleet has nodes n000…, policies p000… and changes 1….
type largeFleet struct {
	grpcapi.Fleet
	nodes    []*fleet.Node
	policies []*fleet.Revision
	from     chan store.Position // of each watch
	steps    []*store.NodeChanges
	text     string // in each change and rollout
}

func (f *largeFleet) AllNodes(context.Context) ([]*fleet.Node, []error, error) {
	return f.nodes, []error{errors.New("key x can't be read")}, nil
}

func (f *largeFleet) Newest(context.Context) ([]*fleet.Revision, error) { return f.policies, nil }

func (f *largeFleet) History(_ context.Context, before uint64, limit int) (list []*fleet.Entry, more bool, err error) {
	if before == 0 {
		before = 1001
	}
	for n := before - 1; n > 0; n-- {
		if len(list) == limit {
			return list, true, nil
		}
		list = append(list, &fleet.Entry{Number: n, After: f.text})
	}
	return list, false, nil
}

func (f *largeFleet) WatchNodes(_ context.Context, from store.Position, changed func(*store.NodeChanges) error) error {
	f.from <- from
	for _, step := range f.steps {
		if err := changed(step); err != nil {
			return err
		}
	}
	return errors.New("etcd is away")
}

func newLargeFleet(n int) *largeFleet {
	f := &largeFleet{from: make(chan store.Position, 1)}
	for i := range n {
		f.nodes = append(f.nodes, &fleet.Node{Name: fmt.Sprintf("n%04d", i)})
		f.policies = append(f.policies, &fleet.Revision{Policy: fleet.Policy{Name: fmt.Sprintf("p%04d", i)}, Revision: 1})
	}
	return f
}

// Pages of the fleet's lists have each item once, within their sizes, and take only their own
// tokens.
func TestPagesOfTheFleet(t *testing.T) {
	f := newLargeFleet(1000)
	c := rdmadv1.NewFleetServiceClient(startIn(t, f, smallPlane(), nil, 16).client)
	tokens := map[string]string{}
	for what, page := range map[string]func(size uint32, token string) ([]string, string, error){
		"nodes": func(size uint32, token string) (names []string, _ string, _ error) {
			res, err := c.ListNodes(t.Context(), &rdmadv1.ListNodesRequest{PageSize: size, PageToken: token})
			for _, n := range res.GetNodes() {
				names = append(names, n.GetName())
			}
			if err == nil && (len(res.GetProblems()) == 1) != (token == "") {
				t.Errorf("problems %q after %q", res.GetProblems(), token)
			}
			return names, res.GetNextPageToken(), err
		},
		"policies": func(size uint32, token string) (names []string, _ string, _ error) {
			res, err := c.ListPolicies(t.Context(), &rdmadv1.ListPoliciesRequest{PageSize: size, PageToken: token})
			for _, p := range res.GetPolicies() {
				names = append(names, p.GetName())
			}
			return names, res.GetNextPageToken(), err
		},
		"history": func(size uint32, token string) (names []string, _ string, _ error) {
			res, err := c.ListHistory(t.Context(), &rdmadv1.ListHistoryRequest{PageSize: size, PageToken: token})
			for _, e := range res.GetEntries() {
				names = append(names, fmt.Sprintf("%04d", 1000-int(e.GetSequence())))
			}
			return names, res.GetNextPageToken(), err
		},
	} {
		for _, size := range []uint32{0, 100, 333, 999, 1000} {
			var all []string
			for token := ""; ; {
				names, next, err := page(size, token)
				if err != nil || size > 0 && len(names) > int(size) {
					t.Fatalf("%s: page of %d: %d, %v", what, size, len(names), err)
				}
				all = append(all, names...)
				if token = next; next == "" {
					break
				}
				tokens[what] = next
			}
			if len(all) != 1000 || !slices.IsSorted(all) || len(slices.Compact(all)) != 1000 {
				t.Errorf("%s in pages of %d: %d items", what, size, len(all))
			}
		}
	}
	for _, token := range []string{"x", tokens["policies"], tokens["history"]} {
		if _, err := c.ListNodes(t.Context(), &rdmadv1.ListNodesRequest{PageToken: token}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func (f *largeFleet) AllRollouts(context.Context, string) (all []*fleet.Rollout, _ error) {
	for i, n := range f.nodes {
		all = append(all, &fleet.Rollout{Ref: fleet.Ref{Policy: n.Name, Revision: uint32(i + 1)}, Reason: f.text})
	}
	return all, nil
}

// Versions implements grpcapi.Fleet: as many revisions as there are rollouts.
func (f *largeFleet) Versions(_ context.Context, policy string) (all []*fleet.Revision, _ error) {
	for i := range f.nodes {
		all = append(all, &fleet.Revision{Policy: fleet.Policy{Name: policy}, Revision: uint32(len(f.nodes) - i), Comment: f.text})
	}
	return all, nil
}

// A page of large items has fewer, so that a client with gRPC's default limits takes it.
func TestPagesOfLargeItems(t *testing.T) {
	f := newLargeFleet(40)
	f.text = strings.Repeat("x", 1<<20)
	f.nodes[0].Report = &fleet.Report{Refused: strings.Repeat("x", 3<<20)} // alone more than a page
	for _, n := range f.nodes[1:] {
		n.Report = &fleet.Report{Refused: f.text}
	}
	c := rdmadv1.NewFleetServiceClient(startIn(t, f, smallPlane(), nil, 16).client)
	revision := uint32(41)
	for what, page := range map[string]func(token string) (int, string, error){
		"nodes": func(token string) (int, string, error) {
			res, err := c.ListNodes(t.Context(), &rdmadv1.ListNodesRequest{PageToken: token})
			return len(res.GetNodes()), res.GetNextPageToken(), err
		},
		"rollouts": func(token string) (int, string, error) {
			res, err := c.ListRollouts(t.Context(), &rdmadv1.ListRolloutsRequest{PageToken: token})
			return len(res.GetRollouts()), res.GetNextPageToken(), err
		},
		"revisions": func(token string) (int, string, error) {
			res, err := c.ListPolicyRevisions(t.Context(), &rdmadv1.ListPolicyRevisionsRequest{Policy: "p", PageToken: token})
			for i, r := range res.GetRevisions() {
				if revision--; r.GetRevision() != revision || res.GetStates()[i] != rdmadv1.FleetRollout_RUNNING {
					t.Errorf("revision %d is %v, want %d", r.GetRevision(), res.GetStates()[i], revision)
				}
			}
			return len(res.GetRevisions()), res.GetNextPageToken(), err
		},
		"history": func(token string) (int, string, error) {
			res, err := c.ListHistory(t.Context(), &rdmadv1.ListHistoryRequest{PageSize: 40, PageToken: token})
			if n := len(res.GetEntries()); n > 0 && res.GetEntries()[n-1].GetSequence() <= 1000-40 {
				return n, "", err
			}
			return len(res.GetEntries()), res.GetNextPageToken(), err
		},
	} {
		n, pages, token := 0, 0, ""
		for {
			items, next, err := page(token)
			if err != nil || items == 0 {
				t.Fatalf("%s: %d items, %v", what, items, err)
			}
			n, pages, token = n+items, pages+1, next
			if token == "" {
				break
			}
		}
		if n < 40 || n > 41 || pages < 20 {
			t.Errorf("%s: %d items in %d pages", what, n, pages)
		}
	}
}

// brokenFleet is one whose connection to etcd breaks off in the middle of a request, or is not to an etcd.
type brokenFleet struct {
	grpcapi.Fleet
	err error // as etcd's client returns it
}

func (f brokenFleet) RemoveNode(context.Context, string) error { return f.err }

func (f brokenFleet) WatchNodes(context.Context, store.Position, func(*store.NodeChanges) error) error {
	return f.err
}

func (f brokenFleet) WatchRollout(context.Context, fleet.Ref, func(*fleet.Rollout) (bool, error)) error {
	return f.err
}

// TestConnectionToEtcdBreaks: an error of the connection to etcd says that it is one. A client would take it for one of
// its own connection to rdmad.
func TestConnectionToEtcdBreaks(t *testing.T) {
	for _, err := range []error{
		status.Error(codes.Unavailable, "error reading from server: EOF"),
		status.Error(codes.Unimplemented, "unknown service etcdserverpb.KV"),
		status.Error(codes.Unknown, "unexpected HTTP status code received from server: 500 (Internal Server Error)"),
		status.Error(codes.PermissionDenied, "unexpected HTTP status code received from server: 403 (Forbidden)"),
	} {
		testBrokenFleet(t, err)
	}
}

func testBrokenFleet(t *testing.T, broken error) {
	c := rdmadv1.NewFleetServiceClient(startIn(t, brokenFleet{err: broken}, smallPlane(), nil, 16).client)
	for what, ask := range map[string]func() error{
		"remove": func() error {
			_, err := c.RemoveNode(t.Context(), &rdmadv1.RemoveNodeRequest{Name: "a"})
			return err
		},
		"nodes": func() error {
			stream, err := c.WatchNodes(t.Context(), &rdmadv1.WatchNodesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"rollout": func() error {
			stream, err := c.WatchRollout(t.Context(), &rdmadv1.WatchRolloutRequest{Id: "p@1"})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
	} {
		st := status.Convert(ask())
		if st.Code() != codes.Unavailable || !strings.HasPrefix(st.Message(), "etcd: "+status.Convert(broken).Message()+"; ") || strings.Count(st.Message(), "; ") != 1 {
			t.Errorf("%s: %v", what, st)
		}
	}
}

// A policy that breaks a rule is refused with the field that is wrong.
func TestWrongPolicy(t *testing.T) {
	c := rdmadv1.NewFleetServiceClient(startIn(t, newLargeFleet(0), smallPlane(), nil, 16).client)
	for _, p := range []*rdmadv1.FleetPolicy{{Name: "-"}, {Name: "p", Selector: []string{"a in b"}}} {
		_, err := c.ApplyPolicy(t.Context(), &rdmadv1.ApplyPolicyRequest{Policy: p})
		if st := status.Convert(err); st.Code() != codes.InvalidArgument || len(st.Details()) != 1 {
			t.Errorf("%v: %v, %v", p, err, st.Details())
		}
	}
}

// idleFleet is one in which nothing changes.
type idleFleet struct{ grpcapi.Fleet }

func (idleFleet) WatchNodes(ctx context.Context, _ store.Position, changed func(*store.NodeChanges) error) error {
	err := changed(&store.NodeChanges{Listed: true})
	<-ctx.Done()
	return err
}

func (idleFleet) WatchRollout(ctx context.Context, _ fleet.Ref, changed func(*fleet.Rollout) (bool, error)) error {
	_, err := changed(&fleet.Rollout{})
	<-ctx.Done()
	return err
}

// Watches of the fleet are bounded: each has a watch of etcd, which all nodes share.
func TestWatchesOfTheFleetAreBounded(t *testing.T) {
	c := rdmadv1.NewFleetServiceClient(startIn(t, idleFleet{}, smallPlane(), nil, 16).client)
	watch := func(ctx context.Context, i int) error {
		if i%2 == 0 {
			stream, err := c.WatchNodes(ctx, &rdmadv1.WatchNodesRequest{})
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		}
		stream, err := c.WatchRollout(ctx, &rdmadv1.WatchRolloutRequest{Id: "p@1"})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}
	const most = 32 // of one client
	ctx, end := context.WithCancel(t.Context())
	for i := range most {
		if err := watch(ctx, i); err != nil {
			t.Fatalf("watch %d: %v", i, err)
		}
	}
	for i := range 2 {
		if err := watch(t.Context(), i); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one more: %v", err)
		}
	}
	end()
	for i := range most { // as soon as rdmad knows of the ends
		for status.Code(watch(t.Context(), i)) == codes.ResourceExhausted {
		}
	}
}

// A watch of nodes tells where it can be resumed only between steps, and resumes there.
func TestWatchNodesResumes(t *testing.T) {
	f := newLargeFleet(2)
	f.steps = []*store.NodeChanges{
		{Listed: true, Nodes: f.nodes, At: store.Position{Cluster: 0xfe, Revision: 5}},
		{Nodes: f.nodes, Gone: []string{"x"}, Problems: []error{errors.New("key y")}, At: store.Position{Cluster: 0xfe, Revision: 7}},
	}
	c := rdmadv1.NewFleetServiceClient(startIn(t, f, smallPlane(), nil, 16).client)
	var got []string
	stream, err := c.WatchNodes(t.Context(), &rdmadv1.WatchNodesRequest{ResumeToken: "fe-3"})
	for err == nil {
		var e *rdmadv1.WatchNodesResponse
		if e, err = stream.Recv(); err == nil {
			got = append(got, fmt.Sprintf("%s %s%s %s", e.GetType(), e.GetNode().GetName(), e.GetReason(), e.GetResumeToken()))
		}
	}
	if status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	want := []string{"EXISTING n0000 ", "EXISTING n0001 ", "LISTED  fe-5", "UNREADABLE key y ", "CHANGED n0000 ", "CHANGED n0001 ", "REMOVED x fe-7"}
	if from := <-f.from; !slices.Equal(got, want) || from != (store.Position{Cluster: 0xfe, Revision: 3}) {
		t.Errorf("from %+v got %q", from, got)
	}
	for _, token := range []string{"x", "fe", "fe-", "FE-3", "fe-3 "} {
		stream, err := c.WatchNodes(t.Context(), &rdmadv1.WatchNodesRequest{ResumeToken: token})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%q: %v", token, err)
		}
	}
	// Nodes that only reported another load are left out on request.
	stream, err = c.WatchNodes(t.Context(), &rdmadv1.WatchNodesRequest{ChangesOnly: true})
	n := 0
	for ; err == nil; n++ {
		_, err = stream.Recv()
	}
	if <-f.from; errors.Is(err, io.EOF) || n != 3+2+1 {
		t.Errorf("%d events, %v", n-1, err)
	}
}

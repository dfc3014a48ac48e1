package grpcapi

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// counted is a plane that counts how often its connections are listed.
type counted struct {
	*planetest.Plane
	lists atomic.Int32
}

func (c *counted) Connections() []dataplane.ConnInfo {
	c.lists.Add(1)
	return c.Plane.Connections()
}

// watching is a plane with streams of its connections, in a bubble of synctest.
type watching struct {
	*connectionService
	*counted
	t       *testing.T
	ctx     context.Context
	running sync.WaitGroup
}

// watchPlane runs a test of streams.
func watchPlane(t *testing.T, test func(*watching)) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Plane: &planetest.Plane{}}
		c.Use(func(dataplane.ConnKey) *rpcrdma.Settings { s := rpcrdma.DefaultSettings(); return &s })
		ctx, cancel := context.WithCancel(t.Context())
		w := &watching{t: t, counted: c, ctx: ctx, connectionService: &connectionService{
			plane: c, hub: watch.NewHub(c, keeper{}, slog.New(slog.DiscardHandler), 1024),
		}}
		w.running.Go(func() { w.hub.Run(ctx) })
		test(w)
		cancel()
		w.running.Wait()
	})
}

// tap is a stream whose client knows what it was sent.
type tap struct {
	connectionStream
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	batches []encoded
	events  []*rdmadv1.WatchConnectionsResponse
	known   map[string]*rdmadv1.Connection
	ended   error
}

// open opens a stream, and waits until it has nothing more to send.
func (w *watching) open(req *rdmadv1.WatchConnectionsRequest) *tap {
	s := w.begin(req)
	synctest.Wait()
	return s
}

func (w *watching) begin(req *rdmadv1.WatchConnectionsRequest) *tap {
	s := &tap{known: make(map[string]*rdmadv1.Connection)}
	s.ctx, s.cancel = context.WithCancel(w.ctx)
	w.running.Go(func() {
		err := w.WatchConnections(req, s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = err
	})
	return s
}

func (s *tap) Context() context.Context { return s.ctx }

func (s *tap) SendHeader(metadata.MD) error { return nil }

func (s *tap) SendMsg(m any) error {
	var r rdmadv1.WatchConnectionsResponse
	if err := proto.Unmarshal(m.(encoded), &r); err != nil {
		return err
	}
	s.mu.Lock()
	s.batches = append(s.batches, m.(encoded))
	s.mu.Unlock()
	return s.Send(&r)
}

func (s *tap) Send(r *rdmadv1.WatchConnectionsResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, r)
	for _, c := range r.GetConnections() {
		s.known[c.GetId()] = c
	}
	switch c := r.GetConnection(); r.GetType() {
	case rdmadv1.WatchConnectionsResponse_DOWN:
		if s.known[c.GetId()] == nil {
			return fmt.Errorf("connection %s goes, but was not up", c.GetId())
		}
		delete(s.known, c.GetId())
	case rdmadv1.WatchConnectionsResponse_UP:
		if s.known[c.GetId()] != nil {
			return fmt.Errorf("connection %s comes twice", c.GetId())
		}
		s.known[c.GetId()] = c
	default: // CHANGED, or EXISTING without batches
		if c != nil {
			s.known[c.GetId()] = c
		}
	}
	return nil
}

func (s *tap) check(t *testing.T, plane *planetest.Plane) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := plane.Connections()
	if s.ended != nil || len(s.known) != len(all) {
		t.Errorf("the client knows %d of %d connections, and the stream has ended with %v", len(s.known), len(all), s.ended)
	}
	for i := range all {
		if c := s.known[all[i].ID]; c == nil || c.GetInlineSend() != all[i].InlineSend {
			t.Errorf("the client knows %v, inline_send is %d", c, all[i].InlineSend)
		}
	}
}

func (c *counted) connect(from, to int) {
	for i := from; i < to; i++ {
		c.Connect(planetest.Peer{ID: fmt.Sprint(i), Listener: "nfs", Address: fmt.Sprintf("192.0.2.9:%d", i+1)})
	}
}

var batches = &rdmadv1.WatchConnectionsRequest{Batches: true}

// TestStreamsShareTheListing: streams that begin together send the same few messages, made once.
// After an event, after the last stream has ended, and after some time it is made again.
func TestStreamsShareTheListing(t *testing.T) {
	watchPlane(t, func(w *watching) {
		const streams, connections = 17, 500
		w.connect(0, connections)
		synctest.Wait()
		all := make([]*tap, streams)
		for i := range all {
			all[i] = w.begin(batches)
		}
		synctest.Wait()
		lists := func(want int32, when string) {
			t.Helper()
			if got := w.lists.Load(); got != want {
				t.Fatalf("%s: the connections were listed %d times, want %d", when, got, want)
			}
		}
		lists(1, "together")
		for _, s := range all {
			s.check(t, w.Plane)
			if want := (connections + batch - 1) / batch; len(s.events) != want || len(s.batches) != want {
				t.Errorf("%d messages of %d connections, want %d", len(s.events), connections, want)
			}
			for i := range s.batches {
				if &s.batches[i][0] != &all[0].batches[i][0] {
					t.Errorf("a stream has its own message %d", i)
				}
			}
		}
		w.open(batches).check(t, w.Plane)
		lists(1, "a moment later")
		w.connect(connections, connections+1)
		synctest.Wait()
		w.open(batches).check(t, w.Plane)
		lists(2, "after an event")
		masked := w.open(&rdmadv1.WatchConnectionsRequest{Batches: true, ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"peer"}}})
		if c := masked.events[0].GetConnections()[0]; c.GetPeer() == "" || c.GetInlineSend() != 0 {
			t.Errorf("of other fields: %v", c)
		}
		lists(3, "for other fields")
		if other := w.open(&rdmadv1.WatchConnectionsRequest{Batches: true, Listener: "other"}); len(other.events) != 0 {
			t.Errorf("of another listener: %v", other.events)
		}
		lists(4, "for another listener")
		w.open(batches)
		lists(5, "for all again")
		time.Sleep(maxCell)
		synctest.Wait()
		if w.listings.last != nil {
			t.Error("the listing is kept")
		}
		w.open(batches)
		lists(6, "after some time")
		for _, s := range all {
			s.check(t, w.Plane)
		}
	})
}

// TestListingMissesNothing: whenever a stream begins, what its client knows in the end is what is
// up, although it may have got the list of an earlier stream.
func TestListingMissesNothing(t *testing.T) {
	for seed := range uint64(50) {
		watchPlane(t, func(w *watching) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			next := 0
			var open []*tap
			for range 60 {
				switch rnd.IntN(8) {
				case 0:
					w.connect(next, next+1)
					next++
				case 1: // an id comes again, which dataplane's do not: a client must have noted its end
					if id := rnd.IntN(next + 1); id < next {
						if _, err := w.Connection(strconv.Itoa(id)); err != nil {
							w.connect(id, id+1)
						}
					}
				case 2:
					if all := w.Plane.Connections(); len(all) > 0 {
						w.Disconnect(all[rnd.IntN(len(all))].ID, "gone")
					}
				case 3: // settings change
					send := 1024 * uint32(1+rnd.IntN(4))
					w.ApplySettings(dataplane.Update{Resolve: func(dataplane.ConnKey) *rpcrdma.Settings {
						s := rpcrdma.DefaultSettings()
						s.InlineSendMax = send
						return &s
					}}, nil)
				case 4, 5, 6:
					open = append(open, w.begin(&rdmadv1.WatchConnectionsRequest{Batches: rnd.IntN(4) > 0}))
				default: // all streams end
					for _, s := range open {
						s.cancel()
					}
					open = nil
				}
				if rnd.IntN(2) == 0 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			for _, s := range open {
				s.check(t, w.Plane)
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// TestListingAfterLostEvents: after the hub has lost events, streams do not begin with an older list.
func TestListingAfterLostEvents(t *testing.T) {
	watchPlane(t, func(w *watching) {
		w.connect(0, 2)
		first := w.open(batches)
		w.Lose()
		w.connect(2, 3) // nobody hears of it
		synctest.Wait()
		if first.ended == nil {
			t.Error("the stream goes on")
		}
		w.open(batches).check(t, w.Plane)
	})
}

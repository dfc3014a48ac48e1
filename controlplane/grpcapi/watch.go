package grpcapi

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

type connectionStream = grpc.ServerStreamingServer[rdmadv1.WatchConnectionsResponse]

// WatchConnections implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) WatchConnections(req *rdmadv1.WatchConnectionsRequest, stream connectionStream) error {
	fields, err := newReadMask(req.GetReadMask(), &rdmadv1.Connection{})
	if err != nil {
		return err
	}
	w, err := s.hub.Watch()
	if err != nil {
		return err
	}
	defer w.Close()
	// The client knows from the header that nothing is missed from now on.
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	v := &view{stream: stream, listener: req.GetListener(), mask: fields, known: make(map[string]bool)}
	// Listed after the watcher is there: nothing falls between.
	if req.GetBatches() {
		l, err := s.listings.get(s.plane, s.hub, w, v)
		if err != nil {
			return err
		}
		v.listed, v.batches = l.ids, l.batches
		return sending(w.Done(), func() error { return toStatus(w.Err()) }, func() error { return v.sendBatches(w) })
	}
	all := s.plane.Connections()
	return sending(w.Done(), func() error { return toStatus(w.Err()) }, func() error { return v.send(all, w) })
}

// view is what was sent to a client.
type view struct {
	stream   connectionStream
	listener string // whose connections it wants; "" for all
	mask     mask
	// Connections that it believes up: known says it, or else listed, which other views share.
	known, listed map[string]bool
	batches       []encoded // of the list, to be sent
}

// sendBatches is send for a list in batches.
func (v *view) sendBatches(w *watch.Watcher) error {
	for _, b := range v.batches {
		if err := v.stream.SendMsg(b); err != nil {
			return err
		}
	}
	v.batches = nil // the stream may last for hours
	return v.follow(w)
}

// send sends the client all connections, then events until the stream or the
// watcher ends.
func (v *view) send(all []dataplane.ConnInfo, w *watch.Watcher) error {
	now := time.Now()
	for i := range all {
		if !v.wants(&all[i]) {
			continue
		}
		v.known[all[i].ID] = true
		if err := v.put(rdmadv1.WatchConnectionsResponse_EXISTING, now, &all[i], ""); err != nil {
			return err
		}
	}
	return v.follow(w)
}

// follow sends events.
func (v *view) follow(w *watch.Watcher) error {
	for {
		select {
		case e := <-w.Events():
			if err := v.event(e); err != nil {
				return err
			}
		case <-w.Done():
			return w.Err()
		case <-v.stream.Context().Done():
			return status.FromContextError(v.stream.Context().Err()).Err()
		}
	}
}

func (v *view) wants(c *dataplane.ConnInfo) bool { return v.listener == "" || v.listener == c.Listener }

// believes says whether the client believes that a connection is up.
func (v *view) believes(id string) bool {
	if up, ok := v.known[id]; ok {
		return up
	}
	return v.listed[id]
}

// event sends an event that is new to the client. The list may already have had
// it, and the event of a change may come before its connection is up or after
// it ended.
func (v *view) event(e *dataplane.Event) error {
	id := e.Conn.ID
	switch {
	case e.Type == dataplane.ConnUp && !v.believes(id) && v.wants(&e.Conn):
		v.known[id] = true
		return v.put(rdmadv1.WatchConnectionsResponse_UP, e.Time, &e.Conn, "")
	case e.Type == dataplane.ConnChanged && v.believes(id):
		return v.put(rdmadv1.WatchConnectionsResponse_CHANGED, e.Time, &e.Conn, "")
	case e.Type == dataplane.ConnDown && v.believes(id):
		delete(v.known, id)
		if v.listed[id] {
			v.known[id] = false
		}
		return v.put(rdmadv1.WatchConnectionsResponse_DOWN, e.Time, &e.Conn, e.Reason)
	}
	return nil
}

func (v *view) put(t rdmadv1.WatchConnectionsResponse_Type, at time.Time, c *dataplane.ConnInfo, reason string) error {
	m := connection(c)
	v.mask.prune(m)
	return v.stream.Send(&rdmadv1.WatchConnectionsResponse{
		Type:       t,
		Time:       timestamp(at),
		Connection: m,
		Reason:     reason,
	})
}

package grpcapi

import (
	"time"

	"google.golang.org/grpc"

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
	v := &view{stream: stream, listener: req.GetListener(), mask: fields, batch: 1, known: make(map[string]bool)}
	if req.GetBatches() {
		v.batch = batch
	}
	// Listed after the watcher is there: nothing falls between.
	l, err := s.listings.get(s.plane, s.hub, w, v)
	if err != nil {
		return err
	}
	v.listed, v.list = l.ids, l.messages
	return sending(w.Done(), w.Err, func() error { return v.send(w) })
}

// view is what was sent to a client.
type view struct {
	stream   connectionStream
	listener string // whose connections it wants; "" for all
	mask     mask
	batch    int // connections of one message of the list
	// Connections that it believes up: known says it, or else listed, which other views share.
	known, listed map[string]bool
	list          []encoded // to be sent
}

// send sends the client all connections, then events until the stream or the
// watcher ends.
func (v *view) send(w *watch.Watcher) error {
	for _, m := range v.list {
		if err := v.stream.SendMsg(m); err != nil {
			return err
		}
	}
	v.list = nil // the stream may last for hours
	return w.Each(v.stream.Context(), v.event)
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

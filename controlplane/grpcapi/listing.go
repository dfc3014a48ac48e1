package grpcapi

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/watch"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// batch is the most connections of one message of a listing. The console takes about a
// millisecond to make JSON of so many.
const batch = 128

// listing is the list of connections as streams send it when they begin. Streams share it, so
// nobody changes it.
type listing struct {
	form     string // what it has of which connections
	past     uint64 // of the hub, before the connections were listed
	messages []encoded
	ids      map[string]bool // all true
}

// listings keeps the last listing for maxCell. It makes one at a time: streams that begin
// together wait for one, in place of keeping every processor busy.
type listings struct {
	mu   sync.Mutex
	last *listing
}

// get returns a listing of which a watcher misses nothing: no event came between the two, or
// the watcher has it.
func (l *listings) get(plane Plane, hub *watch.Hub, w *watch.Watcher, v *view) (*listing, error) {
	form := fmt.Sprintf("%v %q %d", v.mask, v.listener, v.batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != nil && l.last.form == form && l.last.past >= w.Past() {
		return l.last, nil
	}
	out := &listing{form: form, past: hub.Past()}
	if err := out.list(plane, v); err != nil {
		return nil, err
	}
	l.last = out
	time.AfterFunc(maxCell, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.last == out {
			l.last = nil
		}
	})
	return out, nil
}

// list lists the connections that a view wants.
func (l *listing) list(plane Plane, v *view) error {
	now := timestamp(time.Now())
	all := plane.Connections()
	l.ids = make(map[string]bool, len(all))
	var next []*rdmadv1.Connection
	for i := range all {
		if v.wants(&all[i]) {
			l.ids[all[i].ID] = true
			m := connection(&all[i])
			v.mask.prune(m)
			next = append(next, m)
		}
		if len(next) == v.batch || i == len(all)-1 && len(next) > 0 {
			message := &rdmadv1.WatchConnectionsResponse{Type: rdmadv1.WatchConnectionsResponse_EXISTING, Time: now, Connections: next}
			if v.batch == 1 {
				message.Connection, message.Connections = next[0], nil
			}
			b, err := proto.Marshal(message)
			if err != nil {
				return err
			}
			l.messages, next = append(l.messages, b), next[:0]
		}
	}
	return nil
}

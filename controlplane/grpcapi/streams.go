package grpcapi

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/trace"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// streamsPerPlace is how many streams may last for each place of a connection: a console has three.
const streamsPerPlace = 8

// costly are the limits of streams that need much memory, or a watch of the etcd that all nodes
// share.
var costly = []struct {
	name    string
	limits  connlimit.Limits
	methods []string
}{
	{"watches of connections", connlimit.Limits{Total: 64, PerKey: 32, Reserved: 16}, []string{rdmadv1.ConnectionService_WatchConnections_FullMethodName}},
	{"watches of the fleet", connlimit.Limits{Total: 64, PerKey: 32, Reserved: 16}, []string{
		rdmadv1.FleetService_WatchNodes_FullMethodName, rdmadv1.FleetService_WatchRollout_FullMethodName,
	}},
	{"traces and captures", connlimit.Limits{Total: trace.MaxWatchers, PerKey: trace.MaxWatchers / 2, Reserved: trace.MaxWatchers / 4}, []string{
		rdmadv1.DiagnosticsService_Trace_FullMethodName, rdmadv1.DiagnosticsService_Capture_FullMethodName,
	}},
}

// streams have places, as connections do: a client has a part of them, and some are kept for admins.
type streams struct {
	all    *connlimit.Table
	costly map[string]*connlimit.Table // by method
}

func newStreams(now time.Time) *streams {
	s := &streams{connlimit.New(now, connlimit.Config{Name: "streams"}), make(map[string]*connlimit.Table)}
	for _, c := range costly {
		t := connlimit.New(now, connlimit.Config{Name: c.name, Parent: s.all, Limits: c.limits})
		for _, method := range c.methods {
			s.costly[method] = t
		}
	}
	return s
}

// setLimits follows the limits of connections.
func (s *streams) setLimits(l connlimit.Limits) {
	s.all.SetLimits(connlimit.Limits{Total: streamsPerPlace * l.Total, PerKey: streamsPerPlace * l.PerKey, Reserved: streamsPerPlace * l.Reserved})
}

// lasting is a stream. It keeps its place until it ends.
type lasting struct{}

func (lasting) Busy() bool               { return true }
func (lasting) Evict(connlimit.Eviction) {}

// begin takes a place for a stream of a client, until end is called.
func (s *streams) begin(method string, client auth.Identity) (end func(), err error) {
	class := connlimit.Ordinary
	if client.Kept {
		class = connlimit.Reserved
	}
	p, err := cmp.Or(s.costly[method], s.all).Admit(time.Now(), connlimit.Name(client.Client), class, lasting{})
	if full, ok := errors.AsType[*connlimit.RefusedError](err); ok {
		which := map[connlimit.Reason]string{connlimit.PerKey: " that one client may have", connlimit.Kept: " that are not kept for admins"}[full.Reason]
		err = fmt.Errorf("all %d %s%s are in use; end another one first", full.Limit, full.Table, which)
		return nil, withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT, "limit", strconv.Itoa(full.Limit))
	}
	return p.Leave, nil
}

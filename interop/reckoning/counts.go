package reckoning

import (
	"fmt"
	"reflect"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Counts are what one call takes, at both ends. Sizes are in bytes.
type Counts struct {
	CallSends           uint64 `json:"call_sends"`
	ReplySends          uint64 `json:"reply_sends"`
	RDMAReads           uint64 `json:"rdma_reads"`
	RDMAWrites          uint64 `json:"rdma_writes"`
	Registrations       uint64 `json:"registrations"`
	LocalInvalidations  uint64 `json:"local_invalidations"`
	RemoteInvalidations uint64 `json:"remote_invalidations"`
	RoundTrips          uint64 `json:"round_trips"`
	// BytesToServer and BytesToClient are in Sends and RDMA operations, with
	// the headers of RPC-over-RDMA but none of what is below it.
	BytesToServer uint64 `json:"bytes_to_server"`
	BytesToClient uint64 `json:"bytes_to_client"`
	// ClientCopies and ServerCopies are bytes copied to be sent, or to where
	// results were wanted. Results that stay in the RPC message, and so
	// are copied with it, are not among them.
	ClientCopies uint64 `json:"client_copies"`
	ServerCopies uint64 `json:"server_copies"`
}

// PerCall is what each of a number of equal calls took, from what the two ends
// counted. It is an error when the ends disagree or calls were not equal.
func PerCall(client, server *rpcrdma.Stats, calls uint64) (*Counts, error) {
	c := &Counts{
		CallSends: client.Sends, ReplySends: server.Sends,
		RDMAReads: server.RDMAReads, RDMAWrites: server.RDMAWrites,
		Registrations:       client.Registrations,
		LocalInvalidations:  client.LocalInvalidations,
		RemoteInvalidations: client.RemoteInvalidations,
		RoundTrips:          client.RoundTrips,
		BytesToServer:       server.BytesReceived,
		BytesToClient:       server.BytesSent,
		ClientCopies:        client.PullupBytes + client.FixupBytes,
		ServerCopies:        server.PullupBytes + server.FixupBytes,
	}
	for _, same := range []struct {
		what           string
		client, server uint64
	}{
		{"replies", client.Replies, server.Replies},
		{"calls' Sends", client.Sends, server.Receives},
		{"replies' Sends", client.Receives, server.Sends},
		{"invalidations", client.RemoteInvalidations, server.SendsWithInvalidate},
		{"round trips", client.RoundTrips, server.RoundTrips},
		{"no registrations of the server", 0, server.Registrations},
		{"no RDMA operations of the client", 0, client.RDMAReads + client.RDMAWrites},
		{"no errors", 0, client.Errors + server.Errors + client.BadReplies + client.Dropped + server.Dropped + server.Ignored},
	} {
		if same.client != same.server {
			return nil, fmt.Errorf("%s: %d at the client, %d at the server", same.what, same.client, same.server)
		}
	}
	return c, c.divide(calls)
}

// Operations are all that the two adapters do for a call.
func (c *Counts) Operations() uint64 {
	return c.CallSends + c.ReplySends + c.RDMAReads + c.RDMAWrites + c.Registrations + c.LocalInvalidations + c.RemoteInvalidations
}

// divide makes sums of calls those of one.
func (c *Counts) divide(calls uint64) error {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		sum := v.Field(i).Uint()
		if sum%calls != 0 {
			return fmt.Errorf("%s: %d in %d equal calls", v.Type().Field(i).Name, sum, calls)
		}
		v.Field(i).SetUint(sum / calls)
	}
	return nil
}

// Since is what was counted after before.
func Since(after, before rpcrdma.Stats) *rpcrdma.Stats {
	to, from := reflect.ValueOf(&after).Elem(), reflect.ValueOf(&before).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() - from.Field(i).Uint())
	}
	return &after
}

// Takes is how long a call takes whose round trips are all that there is to
// wait for.
func (c *Counts) Takes(oneWay time.Duration) time.Duration {
	return time.Duration(c.RoundTrips) * 2 * oneWay
}

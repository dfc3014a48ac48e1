package reckoning

import (
	"fmt"
	"reflect"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// Counts are the operations and bytes of one call, at both ends. Sizes are in
// bytes.
type Counts struct {
	CallSends           uint64 `json:"call_sends"`
	ReplySends          uint64 `json:"reply_sends"`
	RDMAReads           uint64 `json:"rdma_reads"`
	RDMAWrites          uint64 `json:"rdma_writes"`
	Registrations       uint64 `json:"registrations"`
	LocalInvalidations  uint64 `json:"local_invalidations"`
	RemoteInvalidations uint64 `json:"remote_invalidations"`
	RoundTrips          uint64 `json:"round_trips"`
	// BytesToServer and BytesToClient are in Sends and RDMA operations. They
	// include the RPC-over-RDMA headers, but no lower layer.
	BytesToServer uint64 `json:"bytes_to_server"`
	BytesToClient uint64 `json:"bytes_to_client"`
	// ClientCopies and ServerCopies are bytes that were copied to be sent, or
	// copied to where results were wanted. Results that stay in the RPC
	// message, and are copied with it, do not count.
	ClientCopies uint64 `json:"client_copies"`
	ServerCopies uint64 `json:"server_copies"`
}

// PerCall returns the Counts of one of several equal calls, from the statistics
// of both ends. It fails if the ends disagree or the calls were not equal.
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

// Operations returns the number of operations of both adapters for a call.
func (c *Counts) Operations() uint64 {
	return c.CallSends + c.ReplySends + c.RDMAReads + c.RDMAWrites + c.Registrations + c.LocalInvalidations + c.RemoteInvalidations
}

// divide divides all sums by the number of calls.
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

// Since returns the statistics counted between before and after.
func Since(after, before rpcrdma.Stats) *rpcrdma.Stats {
	to, from := reflect.ValueOf(&after).Elem(), reflect.ValueOf(&before).Elem()
	for i := range to.NumField() {
		to.Field(i).SetUint(to.Field(i).Uint() - from.Field(i).Uint())
	}
	return &after
}

// Takes returns how long a call takes if it waits only for its round trips.
func (c *Counts) Takes(oneWay time.Duration) time.Duration {
	return time.Duration(c.RoundTrips) * 2 * oneWay
}

package capture

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/referee"
)

// Report is the result of Check. Its JSON names are part of rdmactl
// check-capture and must not change.
type Report struct {
	Connections []*Connection `json:"connections"`
	// Violations is the number of violations on all connections.
	Violations uint64 `json:"violations"`
	Packets    uint64 `json:"packets"`
	// Dropped is the number of packets that the capturing program dropped, as
	// recorded in the file.
	Dropped uint64 `json:"dropped"`
	// Truncated means that the file ends within a packet.
	Truncated bool `json:"truncated"`
	// OtherFlows is the number of TCP connections in which no RPC-over-RDMA was
	// found.
	OtherFlows uint64 `json:"other_flows"`
	// NotListed is the number of connections above the bound of the lists.
	// Their violations count.
	NotListed uint64 `json:"not_listed"`
	// NotFollowed lists connections that were not judged, with the reason.
	NotFollowed []NotFollowed `json:"not_followed"`
}

// NotFollowed is an iWARP connection that was not judged.
type NotFollowed struct {
	Client string `json:"client"`
	Server string `json:"server"`
	Reason string `json:"reason"`
}

// Connection is the result for one connection.
type Connection struct {
	Peer       string    `json:"peer"` // the client
	Server     string    `json:"server"`
	Transport  string    `json:"transport"` // iwarp
	FirstFrame uint64    `json:"first_frame"`
	LastFrame  uint64    `json:"last_frame"`
	Began      time.Time `json:"began"`
	// Handshake means that the connection's beginning is in the capture.
	Handshake bool `json:"handshake"`
	// Gaps is the number of gaps, MissingBytes the number of missing bytes of
	// the TCP stream.
	Gaps         uint64 `json:"gaps"`
	MissingBytes uint64 `json:"missing_bytes"`
	// GivenUp says why the connection was not followed to its end, or "".
	GivenUp string `json:"given_up"`
	CRC     bool   `json:"crc"`
	Markers bool   `json:"markers"`

	// RPCVersion is the version seen last, RPCVersions are all versions seen.
	RPCVersion  uint32   `json:"rpc_version"`
	RPCVersions []uint32 `json:"rpc_versions"`
	// ToServer and ToClient are the inline thresholds in the handshake, in
	// bytes. They are 0 if the handshake was not seen.
	ToServer           int     `json:"inline_to_server"`
	ToClient           int     `json:"inline_to_client"`
	RemoteInvalidation bool    `json:"remote_invalidation"`
	Credits            Credits `json:"credits"`

	Calls               uint64   `json:"calls"`
	Replies             uint64   `json:"replies"`
	ReverseCalls        uint64   `json:"reverse_calls"`
	ReverseReplies      uint64   `json:"reverse_replies"`
	Sends               uint64   `json:"sends"`
	SendsWithInvalidate uint64   `json:"sends_with_invalidate"`
	RDMAReads           uint64   `json:"rdma_reads"`
	RDMAWrites          uint64   `json:"rdma_writes"`
	Registrations       uint64   `json:"registrations"` // STags offered
	PerCall             PerCall  `json:"per_call"`
	Savings             []Saving `json:"savings"`

	Violations []Violation `json:"violations"`
	// ViolationsFound is the number of violations. The first 100 are listed.
	ViolationsFound uint64 `json:"violations_found"`
}

// Credits are the credits of the forward direction.
type Credits struct {
	Requested uint32 `json:"requested"` // last request
	Granted   uint32 `json:"granted"`   // last grant
	Used      uint64 `json:"used"`      // most calls in flight
}

// PerCall is the number of operations per call.
type PerCall struct {
	Sends         float64 `json:"sends"`
	RDMAReads     float64 `json:"rdma_reads"`
	RDMAWrites    float64 `json:"rdma_writes"`
	Registrations float64 `json:"registrations"`
}

// Saving is the number of calls that would have needed no chunks at the inline
// threshold Inline.
type Saving struct {
	Inline int    `json:"inline"` // bytes, in both directions
	Calls  uint64 `json:"calls"`
}

// Violation is a rule that one side broke.
type Violation struct {
	Rule    string `json:"rule"`
	Section string `json:"section"`
	// Direction is the direction of the message with the violation: to_server
	// or to_client.
	Direction string `json:"direction"`
	Frame     uint64 `json:"frame"`
	Message   string `json:"message"`
}

// Directions of violations, named after the receiver.
const (
	toServer = "to_server"
	toClient = "to_client"
)

func violationOf(v *referee.Violation) Violation {
	direction := toServer
	if v.By == referee.Server {
		direction = toClient
	}
	return Violation{Rule: v.Rule, Section: v.Section, Direction: direction, Frame: v.Frame, Message: v.Message}
}

func (v *Violation) String() string {
	return fmt.Sprintf("frame %d, %s: %s (%s): %s", v.Frame, v.Direction, v.Rule, v.Section, v.Message)
}

// summarize takes over the counts of the referee.
func (c *Connection) summarize(s *referee.Summary) {
	c.RPCVersions = append(c.RPCVersions, s.Versions...)
	if n := len(s.Versions); n > 0 {
		c.RPCVersion = s.Versions[n-1]
	}
	if p, q := s.Client.Private, s.Server.Private; p.Known && q.Known {
		c.ToServer, c.ToClient = min(p.SendSize, q.ReceiveSize), min(q.SendSize, p.ReceiveSize)
		c.RemoteInvalidation = p.RemoteInvalidation && q.RemoteInvalidation
	}
	c.Credits = Credits{s.Forward.CreditsAsked, s.Forward.CreditsGranted, s.Forward.MostInFlight}
	c.Calls, c.Replies, c.ReverseCalls, c.ReverseReplies = s.Forward.Calls, s.Forward.Replies, s.Reverse.Calls, s.Reverse.Replies
	c.Sends = s.Client.Sends + s.Server.Sends
	c.SendsWithInvalidate = s.Client.SendsWithInvalidate + s.Server.SendsWithInvalidate
	c.RDMAReads, c.RDMAWrites = s.Client.Reads+s.Server.Reads, s.Client.Writes+s.Server.Writes
	c.Registrations = s.Client.STags + s.Server.STags
	if n := float64(c.Calls + c.ReverseCalls); n > 0 {
		c.PerCall = PerCall{float64(c.Sends) / n, float64(c.RDMAReads) / n, float64(c.RDMAWrites) / n, float64(c.Registrations) / n}
	}
	for _, at := range s.InlineAt {
		if at.Calls > 0 {
			c.Savings = append(c.Savings, Saving{at.Threshold, at.Calls})
		}
	}
}

func newReport() *Report {
	return &Report{Connections: []*Connection{}, NotFollowed: []NotFollowed{}}
}

// add adds a connection to the report.
func (r *Report) add(client, server netip.AddrPort) *Connection {
	c := &Connection{
		Peer: client.String(), Server: server.String(), Transport: "iwarp",
		RPCVersions: []uint32{}, Savings: []Saving{}, Violations: []Violation{},
	}
	if len(r.Connections) == maxConnections {
		r.NotListed++
		return c
	}
	r.Connections = append(r.Connections, c)
	return c
}

// unfollowed adds a connection that is not judged to the report.
func (r *Report) unfollowed(client, server netip.AddrPort, reason string) {
	if len(r.NotFollowed) == maxConnections {
		r.NotListed++
		return
	}
	r.NotFollowed = append(r.NotFollowed, NotFollowed{Client: client.String(), Server: server.String(), Reason: reason})
}

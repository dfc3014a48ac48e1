package grpcapi

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/dataplane/trace"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
)

var operations = map[verbs.Opcode]rdmadv1.TraceResponse_Operation{
	verbs.OpSend:           rdmadv1.TraceResponse_SEND,
	verbs.OpSendInvalidate: rdmadv1.TraceResponse_SEND_WITH_INVALIDATE,
	verbs.OpRDMARead:       rdmadv1.TraceResponse_RDMA_READ,
	verbs.OpRDMAWrite:      rdmadv1.TraceResponse_RDMA_WRITE,
}

// traceResponse is the one place where a traced event becomes protobuf.
func traceResponse(m *trace.Message) *rdmadv1.TraceResponse {
	res := &rdmadv1.TraceResponse{
		Time:         timestamppb.New(m.Time),
		ConnectionId: m.Conn.ID,
		Operation:    operations[m.Op],
		Direction:    rdmadv1.TraceResponse_OUT,
		Length:       uint32(m.Length),
		Rkey:         m.RKey,
		Summary:      m.Summary(),
		Malformed:    m.Malformed,
		Dropped:      float64(m.Dropped),
	}
	if m.In {
		res.Direction = rdmadv1.TraceResponse_IN
	}
	if m.Prefix {
		res.Header = transportHeader(m)
	}
	if m.HasRPC {
		res.Rpc = &rdmadv1.RpcHeader{
			Reply: m.RPC.Reply, Program: m.RPC.Program, Version: m.RPC.Version, Procedure: m.RPC.Procedure,
			Name: m.RPC.Name(), Status: m.RPC.Status,
		}
	}
	return res
}

// addVerdict adds what an event shows. began says that rdmad is the client.
func addVerdict(res *rdmadv1.TraceResponse, began bool, v trace.Verdict) {
	res.GivenUp = v.GivenUp
	for i := range v.Violations {
		found := &v.Violations[i]
		direction := rdmadv1.TraceResponse_IN
		if began == (found.By == referee.Client) {
			direction = rdmadv1.TraceResponse_OUT
		}
		res.Violations = append(res.Violations, &rdmadv1.Violation{
			Rule: found.Rule, Section: found.Section, Direction: direction, Message: found.Message,
		})
	}
}

func transportHeader(m *trace.Message) *rdmadv1.TransportHeader {
	h := &m.Header
	out := &rdmadv1.TransportHeader{
		Xid: h.XID, Version: h.Version, Credits: h.Credits, Procedure: m.Procedure(), Error: m.HeaderError(),
		Direction: m.Direction(), Operation: m.Operation(),
		Reads: messages(h.Reads, readSegment), Writes: messages(h.Writes, writeChunk),
	}
	if h.HasReply {
		out.Reply = writeChunk(&h.Reply)
	}
	return out
}

func readSegment(s *rpcrdma1.ReadSegment) *rdmadv1.ReadSegment {
	return &rdmadv1.ReadSegment{Position: s.Position, Segment: segment(&s.Segment)}
}

func writeChunk(c *rpcrdma1.WriteChunk) *rdmadv1.WriteChunk {
	return &rdmadv1.WriteChunk{Segments: messages(*c, segment)}
}

func segment(s *rpcrdma1.Segment) *rdmadv1.Segment {
	return &rdmadv1.Segment{Handle: s.Handle, Length: s.Length, Offset: s.Offset}
}

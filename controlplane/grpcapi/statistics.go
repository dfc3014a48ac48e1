package grpcapi

import (
	"time"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// transportStatistics is the one place where a connection's statistics become
// protobuf.
func transportStatistics(c *dataplane.ConnInfo, now time.Time) *rdmadv1.TransportStatistics {
	s := &c.Stats
	return &rdmadv1.TransportStatistics{
		ConnectCount:         1,
		ConnectSeconds:       c.ConnectTime.Seconds(),
		IdleSeconds:          idle(c, now),
		Sends:                float64(s.Sends),
		Receives:             float64(s.Receives),
		BadXids:              float64(s.BadXIDs),
		RequestsInUse:        float64(s.InFlightSum),
		Backlog:              float64(s.BacklogSum),
		ReadChunkCount:       float64(s.ReadChunks),
		WriteChunkCount:      float64(s.WriteChunks),
		ReplyChunkCount:      float64(s.ReplyChunks),
		TotalRdmaRequest:     float64(s.OfferedBytes),
		TotalRdmaReply:       float64(s.PlacedBytes),
		PullupCopyBytes:      float64(s.PullupBytes),
		FixupCopyBytes:       float64(s.FixupBytes),
		HardwayRegisterCount: float64(s.HardwayRegs),
		FailedMarshalCount:   float64(s.FailedMarshal),
		BadReplyCount:        float64(s.BadReplies),
		NomsgCallCount:       float64(s.LongCalls),
		MrsAllocated:         float64(s.WindowsAllocated),
		MrsOrphaned:          float64(s.WindowsOrphaned),
		LocalInvNeeded:       float64(s.CallsFenced),
		EmptySendctxQ:        float64(s.SendQueueFull),
		Registrations:        float64(s.Registrations),
		LocalInvalidations:   float64(s.LocalInvalidations),
		RemoteInvalidations:  float64(s.RemoteInvalidations),
		RoundTrips:           float64(s.RoundTrips),
		Dropped:              float64(s.Dropped),
		Ignored:              float64(s.Ignored),
		Duplicates:           float64(s.Duplicates),
		RepliesReclaimed:     float64(s.RepliesReclaimed),
		RepliesTooLong:       float64(s.RepliesTooLong),
		ReverseReplies:       float64(s.ReverseReplies),
		CallSizes:            sizeCounts(&c.Sizes.Calls),
		ReplySizes:           sizeCounts(&c.Sizes.Replies),
	}
}

func configuration(c *dataplane.ConnInfo) *rdmadv1.Configuration {
	if !c.Configuration.Spoken {
		return nil
	}
	return &rdmadv1.Configuration{ReceiveSize: c.Configuration.Takes, MaxRdmaReads: c.Configuration.Reads}
}

// idle is in seconds; 0 when it is not known.
func idle(c *dataplane.ConnInfo, now time.Time) float64 {
	if c.LastActive.IsZero() {
		return 0
	}
	return max(now.Sub(c.LastActive), 0).Seconds()
}

func sizeCounts(counts *rpcrdma.SizeCounts) []*rdmadv1.SizeCount {
	last := len(counts) - 1
	for last >= 0 && counts[last] == 0 {
		last--
	}
	out := make([]*rdmadv1.SizeCount, 0, last+1)
	for i := range last + 1 {
		c := &rdmadv1.SizeCount{Count: float64(counts[i])}
		if i > 0 {
			c.From, c.To = float64(uint64(1)<<(i-1)), float64(uint64(1)<<i-1)
		}
		out = append(out, c)
	}
	return out
}

package cli

import (
	"fmt"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// transportTable shows a connection's statistics, then the sizes of its calls
// and replies if it had any.
func transportTable(s *rdmadv1.TransportStatistics) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "TRANSPORT"}, {Name: "COUNT", Right: true}}}
	for _, row := range [][2]string{
		{"connects", output.Count(s.GetConnectCount())},
		{"connect time", duration(s.GetConnectSeconds())},
		{"idle", duration(s.GetIdleSeconds())},
		{"sends", output.Count(s.GetSends())},
		{"receives", output.Count(s.GetReceives())},
		{"bad xids", output.Count(s.GetBadXids())},
		{"requests in use", output.Count(s.GetRequestsInUse())},
		{"backlog", output.Count(s.GetBacklog())},
		{"read chunks", output.Count(s.GetReadChunkCount())},
		{"write chunks", output.Count(s.GetWriteChunkCount())},
		{"reply chunks", output.Count(s.GetReplyChunkCount())},
		{"rdma request bytes", output.Count(s.GetTotalRdmaRequest())},
		{"rdma reply bytes", output.Count(s.GetTotalRdmaReply())},
		{"pullup bytes", output.Count(s.GetPullupCopyBytes())},
		{"fixup bytes", output.Count(s.GetFixupCopyBytes())},
		{"hardway registrations", output.Count(s.GetHardwayRegisterCount())},
		{"failed marshals", output.Count(s.GetFailedMarshalCount())},
		{"bad replies", output.Count(s.GetBadReplyCount())},
		{"nomsg calls", output.Count(s.GetNomsgCallCount())},
		{"mrs allocated", output.Count(s.GetMrsAllocated())},
		{"mrs orphaned", output.Count(s.GetMrsOrphaned())},
		{"local inv needed", output.Count(s.GetLocalInvNeeded())},
		{"empty sendctx queue", output.Count(s.GetEmptySendctxQ())},
		{"registrations", output.Count(s.GetRegistrations())},
		{"local invalidations", output.Count(s.GetLocalInvalidations())},
		{"remote invalidations", output.Count(s.GetRemoteInvalidations())},
		{"round trips", output.Count(s.GetRoundTrips())},
		{"dropped", output.Count(s.GetDropped())},
		{"ignored", output.Count(s.GetIgnored())},
		{"duplicates", output.Count(s.GetDuplicates())},
	} {
		t.Row(row[:]...)
	}
	last := t
	for _, sizes := range []struct {
		what   string
		counts []*rdmadv1.SizeCount
	}{{"CALLS", s.GetCallSizes()}, {"REPLIES", s.GetReplySizes()}} {
		if len(sizes.counts) > 0 {
			last.Next = output.Histogram("BYTES", sizes.what, sizeBars(sizes.counts))
			last = last.Next
		}
	}
	return t
}

func sizeBars(counts []*rdmadv1.SizeCount) []output.Bar {
	bars := make([]output.Bar, len(counts))
	for i, c := range counts {
		bars[i] = output.Bar{Label: fmt.Sprintf("%.0f-%.0f", c.GetFrom(), c.GetTo()), Count: c.GetCount()}
	}
	return bars
}

// duration writes a time given in seconds.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Second {
		return d.Round(time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

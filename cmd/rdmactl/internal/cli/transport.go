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
	for _, row := range []struct {
		name, value string
	}{
		{"connects", count(s.GetConnectCount())},
		{"connect time", duration(s.GetConnectSeconds())},
		{"idle", duration(s.GetIdleSeconds())},
		{"sends", count(s.GetSends())},
		{"receives", count(s.GetReceives())},
		{"bad xids", count(s.GetBadXids())},
		{"requests in use", count(s.GetRequestsInUse())},
		{"backlog", count(s.GetBacklog())},
		{"read chunks", count(s.GetReadChunkCount())},
		{"write chunks", count(s.GetWriteChunkCount())},
		{"reply chunks", count(s.GetReplyChunkCount())},
		{"rdma request bytes", count(s.GetTotalRdmaRequest())},
		{"rdma reply bytes", count(s.GetTotalRdmaReply())},
		{"pullup bytes", count(s.GetPullupCopyBytes())},
		{"fixup bytes", count(s.GetFixupCopyBytes())},
		{"hardway registrations", count(s.GetHardwayRegisterCount())},
		{"failed marshals", count(s.GetFailedMarshalCount())},
		{"bad replies", count(s.GetBadReplyCount())},
		{"nomsg calls", count(s.GetNomsgCallCount())},
		{"mrs allocated", count(s.GetMrsAllocated())},
		{"mrs orphaned", count(s.GetMrsOrphaned())},
		{"local inv needed", count(s.GetLocalInvNeeded())},
		{"empty sendctx queue", count(s.GetEmptySendctxQ())},
		{"registrations", count(s.GetRegistrations())},
		{"local invalidations", count(s.GetLocalInvalidations())},
		{"remote invalidations", count(s.GetRemoteInvalidations())},
		{"round trips", count(s.GetRoundTrips())},
		{"dropped", count(s.GetDropped())},
		{"ignored", count(s.GetIgnored())},
		{"duplicates", count(s.GetDuplicates())},
	} {
		t.Row(row.name, row.value)
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

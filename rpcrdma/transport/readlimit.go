package transport

import "github.com/rdmad/rdmad/verbs"

// readLimit limits how many of our RDMA Reads are active at the peer, below the device's
// own limit, if the peer announced a limit (RFC 5666 §6.2).
type readLimit struct {
	limited bool
	most    int
	active  int // posted and not complete, counted once limited
}

// limitReads sets the limit. With 0 the core makes no more Reads, and those posted earlier
// continue one by one.
func (q *sendQueue) limitReads(n uint32) {
	q.reads.limited, q.reads.most = true, int(min(max(n, 1), sendDepth))
}

// allow returns how many of wrs may be posted now.
func (l *readLimit) allow(wrs []verbs.SendWR) int {
	if !l.limited || len(wrs) == 0 {
		return len(wrs)
	}
	room := l.most - l.active
	for i := range wrs {
		if wrs[i].Op == verbs.OpRDMARead {
			if room <= 0 {
				return i
			}
			room--
		}
	}
	return len(wrs)
}

// post counts the Reads among posted requests.
func (l *readLimit) post(wrs []verbs.SendWR) (n int) {
	if l.limited {
		for i := range wrs {
			if wrs[i].Op == verbs.OpRDMARead {
				n++
			}
		}
		l.active += n
	}
	return n
}

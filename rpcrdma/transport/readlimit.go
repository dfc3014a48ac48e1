package transport

import "github.com/rdmad/rdmad/verbs"

// readLimit bounds the RDMA Reads that are active at the peer at once, below
// what the device keeps to, when the peer said so (RFC 5666 §6.2).
type readLimit struct {
	limited bool
	most    int
	active  int // posted and not complete, once limited
}

// limitReads sets the bound. With 0 there are no Reads, which the core sees
// to: those posted before it was told go on one by one.
func (q *sendQueue) limitReads(n uint32) {
	q.reads.limited, q.reads.most = true, int(min(max(n, 1), sendDepth))
}

// allow is how many of wrs may be posted now.
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

// post counts the Reads among requests that were posted.
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

package connector

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// errMisplaced means that the target has written a result that does not match its reply.
var errMisplaced = errors.New("the reply lacks a result that came by RDMA Write, or has it in another length")

// compose finds where in the reply the results that stand apart belong. It also lowers the
// limits that the target announces to what can be carried.
func (cl *call) compose() error {
	cl.reply, cl.items = cl.rpc.Reply, cl.items[:0]
	if cl.rpc.Long != nil {
		cl.reply = cl.rpc.Long.Bytes()[:cl.rpc.LongLen]
	}
	apart := 0
	for i := range cl.rpc.Results {
		apart += cl.rpc.Results[i].Apart
	}
	if apart == 0 && !cl.plan.Told() {
		return nil
	}
	body, ok := resultsAt(cl.reply)
	if !ok {
		return nil // the reply goes out unchanged
	}
	results := cl.reply[body:]
	cl.apart = cl.apart[:0]
	for i := range cl.rpc.Results {
		r := &cl.rpc.Results[i]
		if r.Apart > 0 {
			at := cl.plan.Find(results, i, cl.apart)
			if at < 0 {
				return errMisplaced
			}
			n := cl.plan.Results[i].Len
			if n == 0 && cl.passOn(i) {
				cl.apart = append(cl.apart, 0)
				continue
			}
			if r.Apart < n || r.Apart > xdr.Padded(n) {
				return errMisplaced
			}
			cl.items = append(cl.items, oncrpc.ReplyItem{Pos: body + at + xdr.Unit, Buf: r.Buf, Len: n})
		}
		cl.apart = append(cl.apart, r.Apart)
	}
	if cl.plan.Told() {
		cl.plan.LowerReply(results, cl.apart)
	}
	return nil
}

// passOn moves what was written into the memory of result i, which is empty, to the next
// result, and likewise from there on. The Linux server uses no write chunk for an empty result
// (svc_rdma_result_payload). passOn returns false if the last result has data already.
func (cl *call) passOn(i int) bool {
	rest := cl.rpc.Results[i:]
	last := len(rest) - 1
	if rest[last].Apart > 0 {
		return false
	}
	free := rest[last].Buf
	for k := last; k > 0; k-- {
		rest[k].Buf, rest[k].Apart = rest[k-1].Buf, rest[k-1].Apart
	}
	rest[0].Buf, rest[0].Apart = free, 0
	return true
}

// resultsAt returns where the results of a reply begin. Only a successful reply has results.
func resultsAt(msg []byte) (n int, ok bool) {
	var h oncrpc.ReplyHeader
	n, err := oncrpc.DecodeReply(msg, &h)
	return n, err == nil
}

// finder returns Find of result i. It is made only once.
func (cl *call) finder(i int) func([]byte) int {
	for len(cl.find) <= i {
		at := len(cl.find)
		cl.find = append(cl.find, func(results []byte) int {
			cl.apart = cl.apart[:0]
			for j := range at {
				cl.apart = append(cl.apart, cl.rpc.Results[j].Apart)
			}
			return cl.plan.Find(results, at, cl.apart)
		})
	}
	return cl.find[i]
}

package rpcrdma_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestPlacedCallIsTooPadded: a call of nearly the largest size goes out, although it would be
// too long with the padding that the structure of the server's receives asks for.
func TestPlacedCallIsTooPadded(t *testing.T) {
	const (
		largest = 256 << 10 // Send
		plain   = 8192
		size    = 1<<20 + 60<<10
	)
	s := rpcrdma.DefaultSettings()
	speakingWith(continuation | rpcrdma.ExtSendDDP)(&s)
	s.InlineSendMax = largest
	l := &teller{newLiar(t, loopback.New(loopback.Config{}), kernelPrivateData, &s)}
	h, _, _ := l.next()
	v := rpcrdma2.DefaultValues()
	v.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue
	v.RequestReceive, v.ResponseSend, v.ReceiveSize = 8, 8, largest
	v.Buffer = rpcrdma2.Buffer{Length: v.ReceiveSize, Groups: []rpcrdma2.BufferGroup{
		{Count: 1, Length: plain}, {Count: 1, Length: v.ReceiveSize - plain, Align: 4096, Flags: rpcrdma2.TargetableFlag},
	}}
	var start rpcrdma2.Set
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		start = append(start, v.Encode(id))
	}
	l.post(optional(h.XID, rpcrdma2.Reply, &rpcrdma2.Init{Start: start}, nil))
	l.ok(l.honestly())
	call := newCall(procNull)
	call.Args = make([]byte, 4)
	call.Items = []oncrpc.ReplyItem{{Pos: 4, Len: size, Buf: make(heapBuffer, size)}}
	ended := make(chan error, 1)
	go func() {
		err := l.c.Call(l.ctx, &call)
		if err != nil {
			t.Error(err)
			l.c.Close()
		}
		ended <- err
	}()
	h, _, _ = l.next()
	l.post(optional(h.XID, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, h.XID)))
	<-ended
}

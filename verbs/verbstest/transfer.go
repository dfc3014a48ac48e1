package verbstest

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// Data of every size arrives whole, by each way there is.
func testTransfers(e *env) {
	sizes := []int{1, 2, 3, 4, 63, 1023, 4095, 4096, 4097, 65535, 65536, 65537, 1<<20 + 1, 64 << 20}
	const most = 64 << 20
	p := e.pair(Options{})
	src := p.A.Register(make([]byte, most), AllAccess)
	dst := p.B.Register(make([]byte, most), AllAccess)
	for i, n := range sizes {
		if uint64(n) > uint64(e.attr.MaxMsgSize) {
			continue
		}
		seed := uint64(100 * i)
		here, there := src.Bytes()[:n], dst.Bytes()[:n]
		from, to := verbs.SGE{MR: src, Length: n}, verbs.SGE{MR: dst, Length: n}

		Fill(here, seed)
		p.B.PostRecv(verbs.RecvWR{ID: 1, SGL: []verbs.SGE{to}})
		p.A.Post(Send(1, from))
		p.B.Got(1, n)
		p.A.Done(1, verbs.WCSend)
		sameBytes(e, fmt.Sprintf("Send of %d", n), there, here)

		Fill(here, seed+1)
		p.A.Post(Write(2, RemoteMR(dst), from))
		p.A.Done(2, verbs.WCRDMAWrite)
		p.A.tell(p.B)
		sameBytes(e, fmt.Sprintf("Write of %d", n), there, here)

		Fill(there, seed+2)
		p.A.Post(Read(3, RemoteMR(dst), from))
		if wc := p.A.Done(3, verbs.WCRDMARead); wc.ByteLen != n {
			e.Fatalf("Read of %d: %d bytes", n, wc.ByteLen)
		}
		sameBytes(e, fmt.Sprintf("Read of %d", n), here, there)
	}
}

//go:build !race

// The race detector makes sync.Pool drop things at random.

package softiwarp

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestNoAllocations: nothing is allocated per message, on either side, with
// any operation.
func TestNoAllocations(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, size := range []int{0, 64, 4096, 100_000} {
			a, b := connectPair(t, Config{CRC: crc}, Config{})
			near, far := a.region(make([]byte, size+1), allAccess), b.region(make([]byte, size+1), allAccess)
			window := must(b.pd.AllocMW())(t)
			t.Cleanup(func() { window.Close() })
			recv := []verbs.RecvWR{{SGL: sge(far, 0, size)}}
			empty := []verbs.RecvWR{{}}
			send := []verbs.SendWR{{Flags: verbs.SendSignaled, SGL: sge(near, 0, size)}}
			write := []verbs.SendWR{
				{Op: verbs.OpRDMAWrite, SGL: sge(near, 0, size), RemoteAddr: far.Addr(), RKey: far.RKey()},
				{Flags: verbs.SendSignaled},
			}
			read := []verbs.SendWR{{Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge(near, 0, size), RemoteAddr: far.Addr(), RKey: far.RKey()}}
			bind := []verbs.SendWR{{Op: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: verbs.BindInfo{MW: window, MR: far, Length: size, Access: verbs.AccessRemoteRead}}}
			revoke := []verbs.SendWR{{Op: verbs.OpLocalInvalidate, Flags: verbs.SendSignaled}}
			sendInv := []verbs.SendWR{{Op: verbs.OpSendInvalidate, Flags: verbs.SendSignaled}}

			post := func(s *side, wrs []verbs.SendWR) {
				if _, err := s.qp.PostSend(wrs); err != nil {
					t.Fatal(err)
				}
				s.succeedOne()
			}
			postRecv := func(wrs []verbs.RecvWR) {
				if _, err := b.qp.PostRecv(wrs); err != nil {
					t.Fatal(err)
				}
			}
			for name, f := range map[string]func(){
				"Send":  func() { postRecv(recv); post(a, send); b.succeedOne() },
				"Write": func() { postRecv(empty); post(a, write); b.succeedOne() },
				"Read":  func() { post(a, read) },
				"Bind and Local Invalidate": func() {
					post(b, bind)
					revoke[0].InvalidateRKey = window.RKey()
					post(b, revoke)
				},
				"Bind and Send With Invalidate": func() {
					post(b, bind)
					sendInv[0].InvalidateRKey = window.RKey()
					postRecv(empty)
					post(a, sendInv)
					b.succeedOne()
				},
			} {
				t.Run(fmt.Sprintf("%s/%d/crc=%v", name, size, crc), func(t *testing.T) {
					f()
					if n := testing.AllocsPerRun(200, f); n != 0 {
						t.Errorf("%v allocations", n)
					}
				})
			}
		}
	}
}

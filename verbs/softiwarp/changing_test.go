//go:build !race

package softiwarp

import (
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

// TestReadOfChangingMemory: a peer reads memory into which a Send is placed at the same time. What
// it reads is undefined, but the checksums match. The race detector would report the two.
func TestReadOfChangingMemory(t *testing.T) {
	const size, rounds = 1 << 20, 50
	for name, access := range map[string]verbs.Access{
		"receive":          verbs.AccessLocalWrite | verbs.AccessRemoteRead,
		"receive or write": allAccess,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connectPair(t, Config{CRC: true}, Config{CRC: true})
			shared := b.region(make([]byte, size), access)
			sink := a.region(make([]byte, size), verbs.AccessLocalWrite)
			var sources [2]verbs.MR
			for i := range sources {
				buf := make([]byte, size)
				for j := range buf {
					buf[j] = byte(i)
				}
				sources[i] = a.region(buf, 0)
			}
			for i := range rounds {
				b.recv(verbs.RecvWR{SGL: sge(shared, 0, size)})
				a.send(verbs.SendWR{
					Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge(sink, 0, size),
					RKey: shared.RKey(), RemoteAddr: shared.Addr(),
				}, verbs.SendWR{Flags: verbs.SendSignaled, SGL: sge(sources[i%2], 0, size)})
				a.succeed(2)
				b.succeed(1)
			}
		})
	}
}

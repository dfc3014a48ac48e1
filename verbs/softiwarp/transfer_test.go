package softiwarp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rdmad/rdmad/verbs"
)

const allAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = rng.Read(b)
	return b
}

// TestTransfer moves every size with every operation and compares the bytes,
// and what lies around them.
func TestTransfer(t *testing.T) {
	sizes := []int{0, 1, 2, 3, 4, 4095, 4096, copyLimit, copyLimit + 1, 65407, 65408, 65409, 65535, 65536, 65537, 1<<20 + 1, 5 << 20}
	for _, config := range []Config{{}, {CRC: true}, {MaxULPDU: minULPDU}, {MaxULPDU: 65535, CRC: true}, {ClientServer: true}} {
		t.Run(fmt.Sprintf("crc=%v/ulpdu=%d/clientserver=%v", config.CRC, config.MaxULPDU, config.ClientServer), func(t *testing.T) {
			a, b := connectPair(t, config, config)
			const size, guard = 5<<20 + 2*64, 64
			src := a.region(randomBytes(size), allAccess)
			dst := b.region(make([]byte, size), allAccess)
			for _, n := range sizes {
				if n > 1<<16 && config.MaxULPDU == minULPDU {
					continue // more FPDUs than are worth the time
				}
				want := src.Bytes()[guard : guard+n]
				check := func(op string) {
					t.Helper()
					got := dst.Bytes()
					if !bytes.Equal(got[guard:guard+n], want) {
						t.Fatalf("%s of %d bytes: wrong data", op, n)
					}
					if len(bytes.Trim(got[:guard], "\x00")) > 0 || len(bytes.Trim(got[guard+n:guard+n+guard], "\x00")) > 0 {
						t.Fatalf("%s of %d bytes: wrote beside the target", op, n)
					}
					clear(got)
				}
				b.recv(verbs.RecvWR{ID: 7, SGL: sge(dst, guard, n)})
				a.send(verbs.SendWR{ID: 1, Flags: verbs.SendSignaled, SGL: sge(src, guard, n)})
				if wc := b.succeed(1)[0]; wc.Op != verbs.WCRecv || wc.ID != 7 || wc.ByteLen != n || wc.WithInvalidate {
					t.Fatalf("receive of %d bytes completed as %+v", n, wc)
				}
				a.succeed(1)
				check("Send")

				b.recv(verbs.RecvWR{})
				a.send(verbs.SendWR{ID: 2, Op: verbs.OpRDMAWrite, SGL: sge(src, guard, n), RemoteAddr: dst.Addr() + guard, RKey: dst.RKey()},
					verbs.SendWR{ID: 3, Flags: verbs.SendSignaled})
				b.succeed(1)
				if wc := a.succeed(1)[0]; wc.ID != 3 {
					t.Fatalf("unsignaled Write completed: %+v", wc)
				}
				check("Write")

				b.send(verbs.SendWR{ID: 4, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge(dst, guard, n),
					RemoteAddr: src.Addr() + guard, RKey: src.RKey()})
				if wc := b.succeed(1)[0]; wc.Op != verbs.WCRDMARead || wc.ByteLen != n {
					t.Fatalf("Read of %d bytes completed as %+v", n, wc)
				}
				check("Read")
			}
		})
	}
}

package forward

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// linkRate is the rate of each of the two links of BenchmarkSlowLinks, in bytes per second.
const linkRate = 100e6

// slowLink is a proxy before an address that passes linkRate bytes per second on, in each
// direction of each connection.
func slowLink(b *testing.B, address string) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				in.Close()
				continue
			}
			go pass(out, in)
			go pass(in, out)
		}
	}()
	return l.Addr().String()
}

// pass copies from one connection to the other until one ends.
func pass(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	free := time.Now() // when the link has sent everything
	for {
		n, err := from.Read(buf)
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(n) / linkRate * float64(time.Second)))
		time.Sleep(time.Until(free))
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// BenchmarkSlowLinks measures the time of a call of 1 MiB through a forwarder with a slow
// link on each side, and straight over one such link. A forwarder that stores what it
// forwards takes twice the time.
func BenchmarkSlowLinks(b *testing.B) {
	for _, proc := range []uint32{benchRead, benchWrite} {
		b.Run(map[uint32]string{benchRead: "READ", benchWrite: "WRITE"}[proc]+"/size=1MiB", func(b *testing.B) {
			upstream := slowLink(b, nfstest.ServeTCP(b, disk{}))
			p, err := softiwarp.New(softiwarp.Config{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			r := newRig(b, p, upstream)
			r.address = slowLink(b, r.address)
			through, straight := benchThroughRig(b, r, proc, 1), benchStraight(b, upstream, proc, 1)
			timed(b, through, 2)
			timed(b, straight, 2)
			var throughTime, straightTime time.Duration
			for b.Loop() {
				throughTime += timed(b, through, 1)
				straightTime += timed(b, straight, 1)
			}
			b.ReportMetric(throughTime.Seconds()/straightTime.Seconds(), "times-straight")
			b.ReportMetric(1e3*throughTime.Seconds()/float64(b.N), "ms/call")
			b.ReportMetric(0, "ns/op") // of both together: says nothing
		})
	}
}

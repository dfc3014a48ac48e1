package costs

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

// machines is how many clients BenchmarkManyAtOnce has: as many as the default configuration serves.
const machines = 4000

// Linux's pauses before it connects again (RPCRDMA_INIT_REEST_TO, RPCRDMA_MAX_REEST_TO).
const firstPause, longestPause = time.Second, 30 * time.Second

// BenchmarkManyAtOnce measures how long 4,000 clients with an address each take to connect to an
// rdmad with the default configuration at the same moment, as after its restart. A client that is
// not accepted tries again as Linux does.
func BenchmarkManyAtOnce(b *testing.B) {
	d := start(b, "")
	for b.Loop() {
		var attempts atomic.Int64
		took := make([]time.Duration, machines)
		conns := make([]net.Conn, machines)
		begin := make(chan struct{})
		var began time.Time
		var all sync.WaitGroup
		for i := range machines {
			all.Go(func() {
				<-begin
				from := net.IPv4(127, 66, byte(i>>8), byte(i))
				for pause := firstPause; b.Context().Err() == nil; pause = min(2*pause, longestPause) {
					attempts.Add(1)
					conn, err := connect(from, d.rdma)
					if err == nil {
						took[i], conns[i] = time.Since(began), conn
						return
					}
					time.Sleep(pause)
				}
			})
		}
		began = time.Now()
		close(begin)
		all.Wait()
		for _, conn := range conns {
			conn.Close()
		}
		slices.Sort(took)
		b.ReportMetric(took[machines/2].Seconds(), "s/half")
		b.ReportMetric(took[machines*9/10].Seconds(), "s/9-of-10")
		b.ReportMetric(took[machines-1].Seconds(), "s/all")
		b.ReportMetric(float64(attempts.Load())/machines, "attempts")
		b.ReportMetric(0, "ns/op")
	}
}

// connect makes an iWARP connection from an address (RFC 5044 §7.1.1, RFC 6581).
func connect(from net.IP, to string) (net.Conn, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dialer.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	const revision, enhanced, depth = 2, 4, 16
	request := append([]byte(iwarp.MPARequest), iwarp.MPAEnhanced, revision)
	request = binary.BigEndian.AppendUint16(request, enhanced)
	request = binary.BigEndian.AppendUint16(request, depth)
	request = binary.BigEndian.AppendUint16(request, depth)
	reply := make([]byte, iwarp.MPAFrameSize)
	_ = conn.SetDeadline(time.Now().Add(hung))
	if _, err = conn.Write(request); err == nil {
		_, err = io.ReadFull(conn, reply)
	}
	if err == nil && reply[16]&iwarp.MPAReject != 0 {
		err = fmt.Errorf("%s rejects %s", to, from)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

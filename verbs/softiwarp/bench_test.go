package softiwarp

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// benchSlice is how many bytes go one way before the other way has its turn. So other load on
// the machine affects both equally.
const benchSlice = 64 << 20

// BenchmarkWrite and BenchmarkRead move data between two providers over
// loopback. ratio_to_tcp compares with a Go TCP stream in the same run:
// writes of the same size, read with a buffer as large as the provider's.
// cpu_to_tcp is the processor time of all goroutines over that of the stream;
// it depends less on what else the machine does.
func BenchmarkWrite(b *testing.B) { benchmarkSizes(b, verbs.OpRDMAWrite) }

func BenchmarkRead(b *testing.B) { benchmarkSizes(b, verbs.OpRDMARead) }

func benchmarkSizes(b *testing.B, op verbs.Opcode) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, crc := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/crc=%v", size>>10, crc), func(b *testing.B) { benchmarkTransfer(b, op, size, crc) })
		}
	}
}

func benchmarkTransfer(b *testing.B, op verbs.Opcode, size int, crc bool) {
	stream := newStream(b, size)
	m := newMover(b, op, size, crc)
	m.move(1)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	var rdma, tcp stopwatch
	b.ResetTimer()
	b.StopTimer()
	for left := b.N; left > 0; {
		n := min(left, benchSlice/size)
		left -= n
		tcp.run(func() { stream.move(n) })
		b.StartTimer()
		rdma.run(func() { m.move(n) })
		b.StopTimer()
	}
	b.ReportMetric(float64(tcp.wall)/float64(rdma.wall), "ratio_to_tcp")
	b.ReportMetric(float64(rdma.cpu)/float64(tcp.cpu), "cpu_to_tcp")
}

// stopwatch adds up wall-clock time and the process's processor time.
type stopwatch struct {
	wall, cpu time.Duration
}

func (s *stopwatch) run(f func()) {
	start, cpu := time.Now(), cpuTime()
	f()
	s.wall += time.Since(start)
	s.cpu += cpuTime() - cpu
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPingPong sends 1 KiB there and back. ratio_to_tcp compares with
// two goroutines that do the same on a TCP connection.
func BenchmarkPingPong(b *testing.B) {
	near, far := connectPair(b, Config{}, Config{})
	const size = 1024
	for _, s := range []*side{near, far} {
		mr := s.region(make([]byte, 2*size), verbs.AccessLocalWrite)
		s.send1[0].SGL, s.recv1[0].SGL = sge(mr, 0, size), sge(mr, size, size)
		s.recvOne()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range b.N {
			far.pong(i)
		}
	}()
	cpu := cpuTime()
	start := time.Now()
	for i := range b.N {
		near.ping(i)
	}
	rdma := time.Since(start)
	<-done
	b.StopTimer()
	var stream stopwatch
	rdmaCPU := cpuTime() - cpu
	tcp := newStream(b, size)
	stream.run(func() { tcp.pingPong(b.N) })
	b.ReportMetric(float64(stream.wall)/float64(rdma), "ratio_to_tcp")
	b.ReportMetric(float64(rdmaCPU)/float64(stream.cpu), "cpu_to_tcp")
}

// ping sends and waits for the answer; pong does the opposite. Only completions of Receives
// matter, but now and then a Send must complete to free the slots of earlier Sends.
func (s *side) ping(i int) {
	s.sendOne(i)
	s.received()
	s.recvOne()
}

func (s *side) pong(i int) {
	s.received()
	s.recvOne()
	s.sendOne(i)
}

func (s *side) sendOne(i int) {
	s.send1[0].Flags = 0
	if i%(testAttr.MaxSendWR/2) == 0 {
		s.send1[0].Flags = verbs.SendSignaled
	}
	if _, err := s.qp.PostSend(s.send1[:]); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *side) recvOne() {
	if _, err := s.qp.PostRecv(s.recv1[:]); err != nil {
		s.tb.Fatal(err)
	}
}

// received waits for a Receive to complete.
func (s *side) received() {
	for s.succeedOne(); s.one[0].Op != verbs.WCRecv; {
		s.succeedOne()
	}
}

// mover keeps a queue pair busy with one operation.
type mover struct {
	b         *testing.B
	near, far *side
	wr        []verbs.SendWR
	fence     verbs.SendWR
}

func newMover(b *testing.B, op verbs.Opcode, size int, crc bool) *mover {
	config := Config{CRC: crc}
	param := rdmacm.ConnParam{ResponderResources: maxReads, InitiatorDepth: maxReads}
	m := &mover{b: b}
	m.near, m.far = connectWith(b, newProvider(b, config), newProvider(b, config), param, param)
	near := m.near.region(make([]byte, size), verbs.AccessLocalWrite)
	access := verbs.AccessRemoteRead
	if op == verbs.OpRDMAWrite {
		access = verbs.AccessRemoteWrite | verbs.AccessLocalWrite
	}
	far := m.far.region(make([]byte, size), access)
	depth := min(max(4<<20/size, 4), testAttr.MaxSendWR/2)
	for range depth {
		m.wr = append(m.wr, verbs.SendWR{Op: op, SGL: sge(near, 0, size), RemoteAddr: far.Addr(), RKey: far.RKey()})
	}
	// One completion for half the queue.
	m.wr[depth-1].Flags = verbs.SendSignaled
	m.fence = verbs.SendWR{Flags: verbs.SendSignaled | verbs.SendFence}
	return m
}

// move executes n operations and waits until all have arrived. The far side waits
// meanwhile, as consumers do and as the stream's reader does. If nobody waited, what arrives
// would stay in the socket until the far side's lease expires, up to 20 ms.
func (m *mover) move(n int) {
	m.far.recv(verbs.RecvWR{})
	arrived := make(chan struct{})
	go func() {
		m.far.succeedOne()
		close(arrived)
	}()
	posted, outstanding := 0, 0
	for posted < n || outstanding > 0 {
		for posted < n && outstanding < 2 {
			k := min(n-posted, len(m.wr))
			// The last of the list is the signaled one.
			m.near.send(m.wr[len(m.wr)-k:]...)
			posted += k
			outstanding++
		}
		m.near.succeedOne()
		outstanding--
	}
	m.near.send(m.fence)
	m.near.succeedOne()
	<-arrived
}

// succeedOne is succeed for one completion, without an allocation. It does not call
// Helper, which walks the stack.
func (s *side) succeedOne() {
	wc := s.one[:]
	for s.cq.Poll(wc) == 0 {
		if err := s.cq.Wait(context.Background()); err != nil {
			s.tb.Fatal(err)
		}
	}
	if wc[0].Status != verbs.WCSuccess {
		s.tb.Fatalf("completion: %v (%v)", wc[0].Status, s.qp.Err())
	}
}

// stream is a TCP connection whose other end reads and counts.
type stream struct {
	b      *testing.B
	conn   net.Conn
	peer   net.Conn
	block  []byte
	counts chan int64 // bytes to read
	done   chan error
}

func newStream(b *testing.B, size int) *stream {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer l.Close()
	s := &stream{b: b, block: make([]byte, size), counts: make(chan int64), done: make(chan error)}
	s.conn = must(net.Dial("tcp", l.Addr().String()))(b)
	peer := must(l.Accept())(b)
	s.peer = peer
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		buf := make([]byte, bufferSize)
		for n := range s.counts {
			s.done <- readAll(peer, buf, n)
		}
	}()
	b.Cleanup(func() {
		close(s.counts)
		<-stopped
		s.conn.Close()
		peer.Close()
	})
	return s
}

func readAll(r io.Reader, buf []byte, n int64) error {
	for n > 0 {
		k, err := r.Read(buf)
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

// pingPong sends a block there and back n times.
func (s *stream) pingPong(n int) time.Duration {
	go func() {
		block := make([]byte, len(s.block))
		for range n {
			_, _ = io.ReadFull(s.peer, block)
			_, _ = s.peer.Write(block)
		}
	}()
	start := time.Now()
	for range n {
		if _, err := s.conn.Write(s.block); err != nil {
			s.b.Fatal(err)
		}
		if _, err := io.ReadFull(s.conn, s.block); err != nil {
			s.b.Fatal(err)
		}
	}
	return time.Since(start)
}

// move writes n blocks and waits until all have been read.
func (s *stream) move(n int) {
	s.counts <- int64(n) * int64(len(s.block))
	for range n {
		if _, err := s.conn.Write(s.block); err != nil {
			s.b.Fatal(err)
		}
	}
	if err := <-s.done; err != nil {
		s.b.Fatal(err)
	}
}

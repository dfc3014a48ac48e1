package costs

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
)

const large = 1 << 20

// named are the system calls that have a column. The rest are counted together.
var named = []string{
	"epoll_pwait", "futex", "read", "readv", "recvmsg", "write", "writev", "sendmsg", "newfstat", "statx", "pread64", "preadv2", "pwrite64",
	"pwritev2", "openat", "close", "fsync", "name_to_handle_at", "faccessat2", "unlinkat", "nanosleep", "madvise",
}

// BenchmarkSystemCalls counts system calls of one client that makes one call at a time.
func BenchmarkSystemCalls(b *testing.B) {
	d := start(b, "")
	for _, over := range []struct {
		name string
		dial func(b *testing.B) (nfstest.Carrier, null)
	}{
		{"softiwarp", func(b *testing.B) (nfstest.Carrier, null) { return dialRDMA(b, d.rdma) }},
		{"tcp", func(b *testing.B) (nfstest.Carrier, null) { return dialTCP(b, d.tcp) }},
	} {
		b.Run(over.name, func(b *testing.B) {
			carrier, null := over.dial(b)
			count(b, &nfstest.Client3{T: b, Carrier: carrier}, null, d.pid)
		})
	}
}

// null makes a NULL call of NFS.
type null func() error

// count counts the system calls of each procedure.
func count(b *testing.B, c *nfstest.Client3, null null, pid int) {
	c.Mount("/export")
	file := c.Create("file")
	c.WriteBytes(file, 0, nfstest.Data(0, large), false)
	for _, op := range []struct {
		name string
		do   func()
	}{
		{"NULL", func() {
			if err := null(); err != nil {
				b.Fatal(err)
			}
		}},
		{"GETATTR", func() { c.Good(file) }},
		{"LOOKUP", func() { c.Lookup("file") }},
		{"READ_4K", func() { c.Read(file, 0, 4096, false) }},
		{"READ_1M", func() { c.Read(file, 0, large, false) }},
		{"WRITE_4K", func() { c.Write(file, 0, 4096, false) }},
		{"WRITE_1M", func() { c.Write(file, 0, large, false) }},
		{"CREATE+REMOVE", func() { c.Create("new"); c.Remove("new") }},
	} {
		b.Run(op.name, func(b *testing.B) {
			for range 50 { // idle goroutines and buffers are as in a busy server
				op.do()
			}
			p := attach(b, pid)
			p.say("enable")
			for b.Loop() {
				op.do()
			}
			p.say("disable")
			total, by := p.result()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(total)/float64(b.N), "syscalls/op")
			for name, n := range by {
				total -= n
				if share := float64(n) / float64(b.N); share >= 0.05 {
					b.ReportMetric(share, name+"/op")
				}
			}
			if share := float64(total) / float64(b.N); share >= 0.05 {
				b.ReportMetric(share, "others/op")
			}
		})
	}
	c.Remove("file")
}

// perf is a perf stat that is attached to a process.
type perf struct {
	b       *testing.B
	cmd     *exec.Cmd
	out     bytes.Buffer
	control *os.File
	ack     *bufio.Reader
}

// attach starts to watch a process. Nothing counts before "enable".
func attach(b *testing.B, pid int) *perf {
	p := &perf{b: b}
	controlRead, control, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	ack, ackWrite, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	args := []string{"stat", "-x,", "-D", "-1", "--control", "fd:3,4", "-p", strconv.Itoa(pid), "-e", "raw_syscalls:sys_enter"}
	for _, name := range named {
		args = append(args, "-e", "syscalls:sys_enter_"+name)
	}
	p.cmd = exec.Command("perf", args...)
	p.cmd.Stderr, p.cmd.ExtraFiles = &p.out, []*os.File{controlRead, ackWrite}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	controlRead.Close()
	ackWrite.Close()
	p.control, p.ack = control, bufio.NewReader(ack)
	b.Cleanup(func() { control.Close(); ack.Close() })
	return p
}

// say gives perf a command and waits until it is carried out.
func (p *perf) say(command string) {
	fmt.Fprintln(p.control, command)
	if line, err := p.ack.ReadString('\n'); !strings.HasPrefix(strings.TrimLeft(line, "\x00"), "ack") {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.b.Fatalf("perf: %q, %v\n%s", line, err, &p.out)
	}
}

// result ends perf and returns its counts: of all system calls, and of each of named.
func (p *perf) result() (total int, by map[string]int) {
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
	by = make(map[string]int)
	for line := range strings.Lines(p.out.String()) {
		fields := strings.Split(line, ",")
		if len(fields) < 3 {
			continue
		}
		n, err := strconv.Atoi(fields[0])
		if err != nil {
			p.b.Fatalf("perf: %s", line)
		}
		if name, is := strings.CutPrefix(fields[2], "syscalls:sys_enter_"); is {
			by[name] = n
		} else {
			total = n
		}
	}
	return total, by
}

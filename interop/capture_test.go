package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	mountv3 "github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/pcap"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// needTshark skips a test if tshark is missing. In CI that is a failure.
func needTshark(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tshark"); err == nil {
		return
	}
	const missing = "missing Debian package: tshark; interop/deps.sh gets it (as root)"
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("left out: " + missing)
}

// captureProviders are the providers that captures are taken on.
var captureProviders = []struct {
	name string
	make func(t *testing.T) rdmacm.Provider
}{
	{"loopback", func(*testing.T) rdmacm.Provider { return loopback.New(loopback.Config{}) }},
	{"infiniband", func(*testing.T) rdmacm.Provider {
		return loopback.New(loopback.Config{Network: loopback.FabricConfig{Transport: loopback.InfiniBand}})
	}},
	{"softiwarp", func(t *testing.T) rdmacm.Provider {
		p, err := softiwarp.New(softiwarp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}},
}

// shortSnap cuts large RDMA operations and some messages.
var shortSnap = trace.Snap{Send: 200, RDMA: 3000}

// TestCapture lets tshark judge captures of an NFS session on each provider. It
// compares what tshark decoded with a trace of the same events.
func TestCapture(t *testing.T) {
	needTshark(t)
	for _, p := range captureProviders {
		t.Run(p.name, func(t *testing.T) {
			s := newCaptured(t, p.make(t))
			first := s.capture(t, trace.All)
			s.connect(t)
			middle := s.capture(t, trace.All)
			short := s.capture(t, shortSnap)
			s.session(t)
			t.Run("whole", func(t *testing.T) { judgeWhole(t, first.stop(t)) })
			t.Run("from the middle on", func(t *testing.T) { judgeWhole(t, middle.stop(t)) })
			t.Run("snap length", func(t *testing.T) { judgeShort(t, short.stop(t)) })
			for _, c := range []*capturing{first, middle, short} {
				refereed(t, c.file)
			}
		})
	}
}

// captured is an NFS server and a client of it, in this process.
type captured struct {
	plane   *dataplane.Dataplane
	p       rdmacm.Provider
	address string
	v       *v3
}

func newCaptured(t *testing.T, p rdmacm.Provider) *captured {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	service, err := nfs.New(nfs.Config{Export: nfs.Export{Path: t.TempDir()}, AsyncMetadata: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	s := &captured{plane: dataplane.New(dataplane.Config{Logger: log}), p: p}
	listener, err := s.plane.PrepareListener(t.Context(), dataplane.ListenerConfig{
		Name: "nfs", Provider: p, Address: "127.0.0.1:0", Service: "export", Handler: service,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	s.address = listener.Info().Address.String()
	s.plane.Start()
	t.Cleanup(func() {
		for _, err := range []error{s.plane.Shutdown(context.Background()), service.Close(), p.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// connect connects and mounts, both over RDMA.
func (s *captured) connect(t *testing.T) {
	t.Helper()
	set := inChunks()
	c, err := rpcrdma.Dial(t.Context(), s.p, s.address, rpcrdma.DialConfig{Settings: &set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	call := rpcrdma.Call{
		Program: mountv3.MOUNT_PROGRAM_PROGRAM_NUMBER, Version: 3, Procedure: 1, Cred: rootCred(),
		Args: xdr.AppendString(nil, "/"), MaxReply: 200,
	}
	if err := c.Call(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
	res, _, err := mountv3.ReadMountres3(bytes.NewReader(call.Reply))
	if err != nil {
		t.Fatal(err)
	}
	root := as[*mountv3.Mountres3_MNT3_OK](t, res).Mountinfo.Fhandle
	s.v = &v3{nfsClient: &nfsClient{Client: c, cred: rootCred()}, t: t, ctx: t.Context(), dir: nfsv3.NfsFh3{Data: root}}
}

// session does what a client does.
func (s *captured) session(t *testing.T) {
	t.Helper()
	v := s.v
	v.dir = v.mkdir("dir")
	for i, size := range dataSizes {
		v.data(fmt.Sprintf("f%d", size), noise(size, uint64(i)))
	}
	v.attributes("f4096")
	v.links()
	v.list()
	v.remove()
}

// capturing writes a capture, and keeps the trace of each message.
type capturing struct {
	w        *trace.Watcher
	file     string
	packets  int
	messages []traced
	reads    int
	writes   int
	dropped  uint64
	done     chan error
}

// traced is a message as decoded by the trace.
type traced struct {
	in     bool
	whole  bool
	header rpcrdma1.Header // a copy
	name   string
	status string
}

func (s *captured) capture(t *testing.T, snap trace.Snap) *capturing {
	t.Helper()
	w, err := s.plane.Tracing().Watch(trace.Filter{Listener: "nfs"}, snap)
	if err != nil {
		t.Fatal(err)
	}
	c := &capturing{w: w, file: filepath.Join(t.TempDir(), "rdmad.pcapng"), done: make(chan error, 1)}
	go func() { c.done <- c.run() }()
	t.Cleanup(w.Close)
	return c
}

func (c *capturing) run() error {
	f, err := os.Create(c.file)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := pcap.NewWriter(f, "test")
	if err != nil {
		return err
	}
	dec := trace.NewDecoder()
	for {
		e, err := c.w.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		if err := out.Write(e); err != nil {
			return err
		}
		c.packets, c.dropped = out.Packets(), e.Dropped
		c.keep(dec.Decode(e))
	}
}

func (c *capturing) keep(m *trace.Message) {
	switch {
	case m.Malformed != "":
		c.messages = append(c.messages, traced{name: "malformed: " + m.Malformed})
	case m.Prefix:
		h := m.Header.Header
		h.Reads, h.Reply = slices.Clone(h.Reads), slices.Clone(h.Reply)
		h.Writes = nil
		for _, w := range m.Header.Writes {
			h.Writes = append(h.Writes, slices.Clone(w))
		}
		c.messages = append(c.messages, traced{m.In, m.Whole(), h, m.RPC.Name(), m.RPC.Status})
	case m.In:
		c.reads++
	default:
		c.writes++
	}
}

// stop ends the capture after all events that have happened.
func (c *capturing) stop(t *testing.T) *capturing {
	t.Helper()
	c.w.Close()
	if err := <-c.done; err != nil {
		t.Fatal(err)
	}
	if c.dropped > 0 {
		t.Errorf("%d events were dropped", c.dropped)
	}
	return c
}

// frameFields are the fields that tshark prints of a packet. Those from
// frameXID on belong to a message.
var frameFields = []string{
	"frame.number", "_ws.malformed", "tcp.checksum.status", "ip.checksum.status", "tcp.analysis.flags", "iwarp_mpa.ulpdulength",
	"frame.cap_len", "frame.len", "rpc.msgtyp", "rpc.program", "rpc.procedure", "rpc.replystat",
	"rpcordma.xid", "rpcordma.msg_type", "rpcordma.flow_control",
	"rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count",
	"rpcordma.position", "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset",
}

const (
	frameNumber = iota
	frameMalformed
	frameTCP
	frameIP
	frameAnalysis
	frameFPDU
	frameCaptured
	frameLength
	frameRPC
	frameProgram
	frameProcedure
	frameStatus
	frameXID
)

// frames runs tshark in two passes. In one pass tshark shows a reply before it
// has reassembled the data of write chunks.
func (c *capturing) frames(t *testing.T) [][]string {
	t.Helper()
	args := []string{"-2", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-E", "separator=|"}
	for _, f := range frameFields {
		args = append(args, "-e", f)
	}
	var all [][]string
	for line := range strings.Lines(string(runTshark(t, c.file, args...))) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "|"))
	}
	if len(all) != c.packets {
		t.Errorf("tshark has %d packets, %d were written", len(all), c.packets)
	}
	return all
}

// judge requires that tshark reports no error, with one exception. tshark 4.0
// calls a READ reply malformed if the data of its write chunk lacks padding, or
// if the data was cut from the file.
func (c *capturing) judge(t *testing.T, all [][]string, cut int) {
	t.Helper()
	reduced := map[string]bool{}
	for _, m := range c.messages {
		n := 0
		for _, w := range m.header.Writes {
			for _, s := range w {
				n += int(s.Length)
			}
		}
		if !m.in && (n%4 != 0 || n > cut) {
			reduced[fmt.Sprintf("0x%08x", m.header.XID)] = true
		}
	}
	missed := 0
	for _, f := range all {
		if strings.HasPrefix(f[frameMalformed], "[Malformed Packet: NFS]") && reduced[f[frameXID]] {
			missed++
		} else if f[frameMalformed] != "" {
			t.Errorf("malformed: %q", f)
		}
		if f[frameTCP] == "0" || f[frameIP] == "0" || f[frameAnalysis] != "" {
			t.Errorf("wrong TCP or IP: %q", f)
		}
	}
	t.Logf("%d packets, %d messages, %d RDMA Reads, %d RDMA Writes; padding or data missed in %d READ replies", c.packets, len(c.messages), c.reads, c.writes, missed)
}

func judgeWhole(t *testing.T, c *capturing) {
	all := c.frames(t)
	c.judge(t, all, 1<<30)
	fpdus := 0
	for _, f := range all {
		if f[frameFPDU] != "" {
			fpdus++
		}
		if f[frameCaptured] != f[frameLength] {
			t.Errorf("cut: %q", f)
		}
	}
	good := bytes.Count(runTshark(t, c.file, "-Y", "iwarp_mpa.crc_check", "-O", "iwarp_mpa"), []byte("(Good CRC32)"))
	if good != fpdus || good < 300 {
		t.Errorf("the CRC32C of %d FPDUs of %d is good", good, fpdus)
	}
	if c.reads == 0 || c.writes == 0 {
		t.Errorf("%d RDMA Reads and %d RDMA Writes", c.reads, c.writes)
	}
	compareHeaders(t, c, all)
	compareCalls(t, c, all)
}

// compareHeaders compares the header and the chunk lists of every message.
func compareHeaders(t *testing.T, c *capturing, all [][]string) {
	t.Helper()
	all = slices.DeleteFunc(slices.Clone(all), func(f []string) bool { return f[frameXID] == "" })
	if len(all) != len(c.messages) {
		t.Fatalf("tshark has %d messages, the trace %d", len(all), len(c.messages))
	}
	for i, m := range c.messages {
		got, want := strings.Join(all[i][frameXID:], "|"), headerFields(&m.header)
		if got != want {
			t.Errorf("message %d: tshark has %s, the trace %s", i, got, want)
		}
	}
}

// headerFields is a header as tshark prints it.
func headerFields(h *rpcrdma1.Header) string {
	var positions, handles, lengths, offsets []string
	add := func(s rpcrdma1.Segment) {
		handles = append(handles, fmt.Sprintf("0x%08x", s.Handle))
		lengths = append(lengths, strconv.FormatUint(uint64(s.Length), 10))
		offsets = append(offsets, fmt.Sprintf("0x%016x", s.Offset))
	}
	for _, r := range h.Reads {
		positions = append(positions, strconv.FormatUint(uint64(r.Position), 10))
		add(r.Segment)
	}
	for _, w := range append(slices.Clone(h.Writes), h.Reply) {
		for _, s := range w {
			add(s)
		}
	}
	reply := 0
	if h.HasReply {
		reply = 1
	}
	return fmt.Sprintf("0x%08x|%d|%d|%d|%d|%d|%s|%s|%s|%s", h.XID, h.Proc, h.Credits, len(h.Reads), len(h.Writes), reply,
		strings.Join(positions, ","), strings.Join(handles, ","), strings.Join(lengths, ","), strings.Join(offsets, ","))
}

// compareCalls compares the procedures of calls. tshark decodes them wherever
// their bytes are; the trace looks only at Sends.
func compareCalls(t *testing.T, c *capturing, all [][]string) {
	t.Helper()
	decoded, replies := map[string]int{}, 0
	for _, f := range all {
		switch {
		case f[frameRPC] == "0" && f[frameProgram] == "100003":
			n, err := strconv.Atoi(f[frameProcedure])
			if err != nil {
				t.Fatalf("tshark's procedures: %q", f)
			}
			decoded["NFS "+procedureNames[n]]++
		case f[frameRPC] == "1" && f[frameProgram] == "100003":
			replies++
		}
	}
	calls, long := map[string]int{}, 0
	for _, m := range c.messages {
		switch {
		case !m.in && m.status != "SUCCESS" && m.header.Proc == rpcrdma1.Msg:
			t.Errorf("a reply %q to %q", m.status, m.name)
		case m.in && m.header.Proc == rpcrdma1.NoMsg:
			long++
		case m.in && strings.HasPrefix(m.name, "NFS "):
			calls[m.name]++
		}
	}
	for name, n := range calls {
		if decoded[name] < n {
			t.Errorf("%s: tshark has %d calls, the trace %d", name, decoded[name], n)
		}
	}
	if total(decoded)-total(calls) != long || long == 0 {
		t.Errorf("tshark has %v, the trace %v and %d calls in chunks as a whole", decoded, calls, long)
	}
	if replies != total(decoded) {
		t.Errorf("tshark has %d replies to %d calls", replies, total(decoded))
	}
	if len(calls) < 12 {
		t.Errorf("only these calls: %v", calls)
	}
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

var procedureNames = [...]string{
	"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK", "MKNOD",
	"REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
}

// judgeShort checks that cut packets are marked as cut, that nothing else is
// wrong, and that complete messages are decoded.
func judgeShort(t *testing.T, c *capturing) {
	all := c.frames(t)
	c.judge(t, all, shortSnap.RDMA)
	cut, decoded, want := 0, 0, 0
	for _, f := range all {
		if f[frameCaptured] != f[frameLength] {
			cut++
		}
		if f[frameXID] != "" {
			decoded++
		}
	}
	for _, m := range c.messages {
		if m.whole {
			want++
		}
	}
	if cut == 0 || decoded != want || want == len(c.messages) {
		t.Errorf("%d of %d packets are cut, %d messages of %d decoded, want %d", cut, c.packets, decoded, len(c.messages), want)
	}
}

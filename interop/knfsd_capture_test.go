package interop

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// captureFields are what tshark is asked for, in the order of the constants.
var captureFields = []string{
	"tcp.stream", "tcp.dstport", "tcp.nxtseq", "iwarp_mpa.pdlength", "iwarp_mpa.ulpdulength", "_ws.malformed",
	"rpcordma.xid", "rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count",
	"rpcordma.position", "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset",
}

const (
	fieldStream = iota
	fieldPort
	fieldNext
	fieldPrivate
	fieldULPDU
	fieldMalformed
	fieldXID
	fieldReads
	fieldWrites
	fieldReply
	fieldPosition
	fieldHandle
	fieldLength
	fieldOffset
)

// A packet is what tshark decoded, the values of each field in order.
type packet [][]string

// number returns the only value of a field.
func (p packet) number(t *testing.T, field int) uint64 {
	t.Helper()
	if n := len(p[field]); n != 1 {
		t.Fatalf("%d values of %s in a packet, want 1", n, captureFields[field])
	}
	return p.numbers(t, field)[0]
}

func (p packet) numbers(t *testing.T, field int) []uint64 {
	t.Helper()
	var ns []uint64
	for _, text := range p[field] {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			t.Fatalf("tshark's %s: %v", captureFields[field], err)
		}
		ns = append(ns, n)
	}
	return ns
}

// fromClient reports whether we sent the packet.
func (p packet) fromClient() bool {
	return slices.Equal(p[fieldPort], []string{strconv.Itoa(nfsRDMAPort)})
}

// runTshark reads a capture with tshark and returns the output.
func runTshark(t *testing.T, capture string, args ...string) []byte {
	t.Helper()
	// iWARP has no port of its own. Another protocol may have the port of this
	// connection, and tshark would decode that one.
	defer guest.Busy()()
	cmd := exec.Command("tshark", append([]string{"-o", "tcp.try_heuristic_first:TRUE", "-n", "-r", capture}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return out
}

// packets returns the packets of the capture that have bytes of NFS/RDMA.
func packets(t *testing.T, capture string) []packet {
	t.Helper()
	args := []string{"-Y", fmt.Sprintf("tcp.port==%d && tcp.len>0", nfsRDMAPort), "-T", "fields", "-E", "separator=|"}
	for _, f := range captureFields {
		args = append(args, "-e", f)
	}
	var all []packet
	for line := range strings.Lines(string(runTshark(t, capture, args...))) {
		var p packet
		for _, field := range strings.Split(strings.TrimSuffix(line, "\n"), "|") {
			p = append(p, strings.FieldsFunc(field, func(r rune) bool { return r == ',' }))
		}
		if len(p) != len(captureFields) {
			t.Fatalf("tshark printed %q", line)
		}
		all = append(all, p)
	}
	return all
}

// checkCapture lets tshark judge what went over the wire in all the tests
// before, and compares the chunks that it sees us offer with those that we meant.
func checkCapture(t *testing.T, guest string, o *offers) {
	capture := filepath.Join(t.TempDir(), "resegmented.pcap")
	resegment(t, guest, capture)
	all := packets(t, capture)
	t.Run("malformed", func(t *testing.T) { checkMalformed(t, all) })
	t.Run("complete", func(t *testing.T) { checkComplete(t, all) })
	t.Run("crc", func(t *testing.T) { checkCRC(t, capture) })
	t.Run("chunks", func(t *testing.T) { checkChunks(t, all, o) })
}

// checkMalformed allows no malformed packet, with one exception. tshark does not
// reassemble a reply with the data that an iWARP peer wrote, and calls the NFS
// reply too short. That is allowed only in replies with a used write chunk.
func checkMalformed(t *testing.T, all []packet) {
	good := 0
	for _, p := range all {
		reduced := !p.fromClient() && slices.Contains(p[fieldWrites], "1") && slices.Max(append(p.numbers(t, fieldLength), 0)) > 0
		switch {
		case len(p[fieldMalformed]) > 0 && (!reduced || p[fieldMalformed][0] != "[Malformed Packet: NFS]"):
			t.Errorf("malformed: %q", p)
		case len(p[fieldXID]) > 0 && !reduced:
			good++
		}
	}
	t.Logf("%d of %d packets have well-formed RPC-over-RDMA messages that are whole", good, len(all))
	if good < 500 {
		t.Errorf("tshark found RPC-over-RDMA messages in %d packets only", good)
	}
}

// checkComplete adds up, for each connection and direction, the FPDUs that
// tshark decoded: nothing else may be on the wire but the MPA frames of the
// beginning, and the piece of an FPDU where a connection was cut.
func checkComplete(t *testing.T, all []packet) {
	type direction struct{ stream, port string }
	seen, decoded := map[direction]uint64{}, map[direction]uint64{}
	for _, p := range all {
		d := direction{p[fieldStream][0], p[fieldPort][0]}
		seen[d] = max(seen[d], p.number(t, fieldNext)-1) // sequence numbers of data start at 1
		for _, n := range p.numbers(t, fieldPrivate) {
			decoded[d] += mpaFrame + n
		}
		for _, n := range p.numbers(t, fieldULPDU) {
			decoded[d] += uint64(fpduSize(int(n)))
		}
	}
	cut := 0
	for d, n := range seen {
		switch {
		case decoded[d] > n:
			t.Errorf("%+v: FPDUs of %d bytes in %d", d, decoded[d], n)
		case decoded[d] < n && d.port == strconv.Itoa(nfsRDMAPort):
			cut++
			t.Logf("%+v: %d bytes of an FPDU that was cut", d, n-decoded[d])
		case decoded[d] < n:
			t.Errorf("%+v: FPDUs of %d bytes in %d", d, decoded[d], n)
		}
	}
	if cut > cuts { // fewer when a cut falls between two FPDUs
		t.Errorf("%d connections end within an FPDU of ours, want the %d that were cut", cut, cuts)
	}
}

// mpaFrame is an MPA request or reply without its private data, in bytes.
const mpaFrame = 20

// checkCRC counts the checksums, which only the connections with CRC have.
func checkCRC(t *testing.T, capture string) {
	good := 0
	for line := range bytes.Lines(runTshark(t, capture, "-Y", "iwarp_mpa.crc_check", "-V", "-O", "iwarp_mpa")) {
		switch {
		case !bytes.Contains(line, []byte("CRC check: ")):
		case bytes.Contains(line, []byte("(Good CRC32)")):
			good++
		default:
			t.Errorf("tshark says %s", bytes.TrimSpace(line))
		}
	}
	t.Logf("%d FPDUs with the right CRC32C", good)
	if good < 1000 {
		t.Errorf("only %d FPDUs had a CRC32C to check", good)
	}
}

// checkChunks compares each call of ours that tshark decoded by itself with
// the header that we sent under its XID.
func checkChunks(t *testing.T, all []packet, o *offers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bad) > 0 {
		t.Errorf("%d messages of ours are malformed, the first: %v", len(o.bad), o.bad[0])
	}
	compared := map[string]int{}
	for _, p := range all {
		if !p.fromClient() || len(p[fieldXID]) != 1 {
			continue // tshark's fields don't tell several messages in one packet apart
		}
		xid := uint32(p.number(t, fieldXID))
		sent := o.headers[xid]
		if len(sent) == 0 && xid == probeXID {
			continue
		}
		i := slices.IndexFunc(sent, func(h rpcrdma1.Header) bool { return hasLists(t, p, &h) })
		if i < 0 {
			t.Errorf("tshark saw %q, we sent under that XID %+v", p, sent)
			continue
		}
		count(&sent[i], compared)
	}
	t.Logf("compared, of %d calls sent: %v", len(o.headers), compared)
	for kind, least := range map[string]int{"calls": 300, "read chunks": 20, "position-zero chunks": 1, "write chunks": 50, "reply chunks": 4} {
		if compared[kind] < least {
			t.Errorf("only %d %s were compared, want %d", compared[kind], kind, least)
		}
	}
}

// hasLists reports whether tshark's lists of a call equal those of the header.
func hasLists(t *testing.T, p packet, h *rpcrdma1.Header) bool {
	var positions, handles, lengths, offsets []uint64
	add := func(s *rpcrdma1.Segment) {
		handles = append(handles, uint64(s.Handle))
		lengths = append(lengths, uint64(s.Length))
		offsets = append(offsets, s.Offset)
	}
	for i := range h.Reads {
		positions = append(positions, uint64(h.Reads[i].Position))
		add(&h.Reads[i].Segment)
	}
	for _, w := range h.Writes {
		for i := range w {
			add(&w[i])
		}
	}
	replies := uint64(0)
	if h.HasReply {
		replies = 1
	}
	for i := range h.Reply {
		add(&h.Reply[i])
	}
	for _, c := range []struct {
		field int
		want  []uint64
	}{
		{fieldReads, []uint64{uint64(len(h.Reads))}}, {fieldWrites, []uint64{uint64(len(h.Writes))}}, {fieldReply, []uint64{replies}},
		{fieldPosition, positions}, {fieldHandle, handles}, {fieldLength, lengths}, {fieldOffset, offsets},
	} {
		if !slices.Equal(p.numbers(t, c.field), c.want) {
			return false
		}
	}
	return true
}

// count counts what was compared.
func count(h *rpcrdma1.Header, compared map[string]int) {
	compared["calls"]++
	compared["write chunks"] += len(h.Writes)
	if h.HasReply {
		compared["reply chunks"]++
	}
	for i := range h.Reads {
		if h.Reads[i].Position == 0 {
			compared["position-zero chunks"]++
		} else {
			compared["read chunks"]++
		}
	}
}

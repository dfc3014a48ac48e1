package interop

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// inlineItems are items of the matrix that move next to no data: tshark 4.0
// loses an FPDU's start when many of them share a TCP segment, and calls READ
// replies malformed whose data went another way.
var inlineItems = []string{"names", "links", "rename and remove", "attributes"}

// TestKernelCRC works with a siw that requires CRC32C, and lets tshark judge
// the capture.
func TestKernelCRC(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "guest.pcap")
	g := bootJudged(t, guest.Options{Forward: []int{rpingPort}, Capture: capture}, otherPrograms)
	g.UseRDMA(t, guest.SIWRequireCRC)
	testRping(t, g, softiwarp.Config{})
	t.Run("nfs", func(t *testing.T) {
		m := newMount(t, g, startRdmad(t, g.ShareDir), overRDMA)
		for i, item := range matrix {
			if slices.Contains(inlineItems, item.name) {
				t.Run(item.name, func(t *testing.T) { item.test(t, m.work(t, fmt.Sprintf("%02d", i))) })
			}
		}
	})
	t.Run("wire", func(t *testing.T) {
		judged := filepath.Join(t.TempDir(), "resegmented.pcap")
		resegment(t, capture, judged)
		testCapture(t, judged)
	})
}

// verdict is what tshark says of a capture: packets, but for checksums FPDUs.
type verdict struct{ requests, rpcs, nfs, malformed, goodCRC, badCRC int }

// testCapture requires messages of every layer, and none that is malformed.
func testCapture(t *testing.T, capture string) {
	v := judge(t, capture)
	t.Logf("tshark: %+v", v)
	if v.requests == 0 || v.rpcs < 300 || v.nfs < 300 || v.goodCRC < 1000 {
		t.Errorf("tshark sees too few messages: %+v", v)
	}
	if v.malformed != 0 || v.badCRC != 0 {
		t.Errorf("tshark calls some messages wrong: %+v", v)
	}
}

func judge(t *testing.T, capture string) (v verdict) {
	t.Helper()
	fields := tshark(t, capture, "-T", "fields", "-E", "separator=;",
		"-e", "iwarp_mpa.req", "-e", "rpcordma", "-e", "nfs", "-e", "_ws.malformed")
	for line := range strings.Lines(fields) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), ";")
		for i, count := range []*int{&v.requests, &v.rpcs, &v.nfs, &v.malformed} {
			if i < len(values) && values[i] != "" {
				*count++
			}
		}
	}
	// The field iwarp_mpa.crc_check is the checksum; only the text says more.
	details := tshark(t, capture, "-O", "iwarp_mpa")
	v.goodCRC = strings.Count(details, "(Good CRC32)")
	v.badCRC = strings.Count(details, "(Bad CRC32")
	return v
}

// tshark prints a capture's iWARP packets in some form.
func tshark(t *testing.T, capture string, form ...string) string {
	t.Helper()
	defer guest.Busy()()
	cmd := exec.Command("tshark", append([]string{"-n", "-r", capture, "-Y", "iwarp_mpa"}, form...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return string(out)
}

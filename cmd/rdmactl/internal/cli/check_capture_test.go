package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creack/pty"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/dataplane/capture"
)

// captureFile writes a capture of packets that belong to no connection.
func captureFile(t *testing.T, packets int) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "x.pcap"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriter(f)
	err = w.WriteFileHeader(1000, layers.LinkTypeEthernet)
	frame := make([]byte, 60)
	for range packets {
		if err == nil {
			err = w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(frame), Length: len(frame)}, frame)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// screenOf gives a terminal to write to, and a function that returns the text
// written since its last call.
func screenOf(t *testing.T) (program *os.File, seen func() string) {
	t.Helper()
	screen, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		screen.Close()
		program.Close()
	})
	return program, func() string {
		const end = "\x00" // so that the read returns
		if _, err := program.WriteString(end); err != nil {
			t.Fatal(err)
		}
		all, buf := "", make([]byte, 4096)
		for !strings.HasSuffix(all, end) {
			n, err := screen.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			all += string(buf[:n])
		}
		return strings.TrimSuffix(all, end)
	}
}

const erase = "\r\x1b[K"

// TestCheckCaptureProgress: a terminal shows how much of the file has been read,
// and nothing of that is left at the end. The output is the same.
func TestCheckCaptureProgress(t *testing.T) {
	program, seen := screenOf(t)
	name := captureFile(t, 512)
	var plain, out strings.Builder
	for _, a := range []*app{
		{stdout: &plain, stderr: new(strings.Builder), format: output.FormatTable},
		{stdout: &out, stderr: program, format: output.FormatTable},
	} {
		if err := a.checkCapture(t.Context(), name, capture.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := seen(); !strings.HasPrefix(got, erase+"[#") || !strings.Contains(got, "] 256 packets, ") || !strings.HasSuffix(got, erase) {
		t.Errorf("%q", got)
	}
	if out.String() != plain.String() || !strings.Contains(out.String(), "none found") {
		t.Errorf("%q, without a terminal %q", out.String(), plain.String())
	}
}

// TestCaptureProgressLine: the line appears after a time. For a file, whose size is
// known, it is redrawn now and then; for a pipe, which may be slow, with each packet.
func TestCaptureProgressLine(t *testing.T) {
	program, seen := screenOf(t)
	if captureProgress(output.NewProgress(new(strings.Builder)), 1000, 0) != nil {
		t.Error("without a terminal")
	}
	for name, c := range map[string]struct {
		size         int64
		packets      []uint64
		first, whole string
	}{
		"file": {1000, []uint64{255, 256, 512, 768}, "[#####...............] 256 packets, 250 bytes", "[####################] 768 packets, 1000 bytes"},
		"pipe": {0, []uint64{1, 2, 3, 4}, "1 packets, 0 bytes", "4 packets, 1000 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := output.NewProgress(program)
			progress := captureProgress(p, c.size, time.Second)
			progress(c.packets[1], 100)
			if got := seen(); got != "" {
				t.Errorf("%s: %q at once", name, got)
			}
			time.Sleep(time.Second)
			progress(c.packets[0], 0)
			progress(c.packets[1], 250)
			if got := seen(); got != erase+c.first {
				t.Errorf("%s: %q, want %q", name, got, c.first)
			}
			time.Sleep(redraw - 1)
			if progress(c.packets[2], 500); seen() != "" {
				t.Errorf("%s: redrawn too early", name)
			}
			time.Sleep(time.Nanosecond)
			progress(c.packets[3], 1000)
			p.End()
			if got := seen(); got != erase+c.whole+erase {
				t.Errorf("%s: %q, want %q", name, got, c.whole)
			}
		})
	}
}

package conditions

import (
	"strings"
	"testing"
)

// A limit that the control group lowers does not rise with limits.memory, so the message names
// the reason.
func TestMemoryUse(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		mapped, runtime int64
		less            string
		want            *Reason
		text            string
	}{
		{mapped: 600 * mib, runtime: 300 * mib, want: MemoryFree},
		{mapped: 700 * mib, runtime: 300 * mib, want: MemoryNearLimit, text: "1000 of 1024 MiB are in use: 700 for calls, replies and receives, 300 by the Go runtime"},
		{mapped: 700 * mib, runtime: 300 * mib, less: "the group is small", want: MemoryNearLimit, text: "by the Go runtime; the group is small"},
	} {
		if got, text := MemoryUse(c.mapped, c.runtime, 1<<30, c.less); got != c.want || !strings.HasSuffix(text, c.text) {
			t.Errorf("%+v: %s, %q", c, got.Name, text)
		}
	}
}

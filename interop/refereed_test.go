package interop

import (
	"os"
	"testing"

	"github.com/rdmad/rdmad/dataplane/capture"
)

// refereed lets the referee judge a capture, which must be followed to its end
// and without a violation.
func refereed(t *testing.T, file string) *capture.Report {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	report, err := capture.Check(t.Context(), f, capture.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Connections {
		t.Logf("%s: version %d, %d calls, %d gaps, %d bytes missing", c.Peer, c.RPCVersion, c.Calls, c.Gaps, c.MissingBytes)
		if c.GivenUp != "" {
			t.Errorf("%s was given up: %s", c.Peer, c.GivenUp)
		}
		for i := range c.Violations {
			t.Errorf("%s: %v", c.Peer, &c.Violations[i])
		}
	}
	for _, n := range report.NotFollowed {
		t.Errorf("%s was not followed: %s", n.Client, n.Reason)
	}
	if len(report.Connections) == 0 || report.Truncated {
		t.Errorf("%d connections, truncated %v", len(report.Connections), report.Truncated)
	}
	return report
}

package main

import (
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestLogLevel: an operator turns lines of level debug on and off while rdmad runs, and the
// API has the origin of the level: the flag, its variable or the operator.
func TestLogLevel(t *testing.T) {
	t.Setenv("RDMAD_LOG_LEVEL", "warn")
	r := newRig(t)
	if got := level(t, r.operator(r.start("--log-level", "info")).process); got != "INFO --log-level" {
		t.Errorf("level %s", got)
	}
	other := newRig(t)
	t.Setenv("RDMAD_LOG_LEVEL", "info")
	p := other.start()
	process := other.operator(p).process
	if got := level(t, process); got != "INFO RDMAD_LOG_LEVEL" {
		t.Errorf("level %s", got)
	}
	if _, err := process.SetLogLevel(t.Context(), &rdmadv1.SetLogLevelRequest{Level: rdmadv1.LogLevel_DEBUG}); err != nil {
		t.Fatal(err)
	}
	if got := level(t, process); !strings.HasPrefix(got, "DEBUG operator ") {
		t.Errorf("level %s", got)
	}
	// A call of the control plane makes a line of level debug.
	if err := p.waitLog(regexp.MustCompile(`"level":"DEBUG".*"grpc.method":"GetLogLevel"`), 1); err != nil {
		t.Error(err)
	}
	if _, err := process.SetLogLevel(t.Context(), &rdmadv1.SetLogLevelRequest{Level: rdmadv1.LogLevel_ERROR}); err != nil {
		t.Fatal(err)
	}
	before := p.Log()
	level(t, process)
	p.end(t, "TERM", 0)
	if more := strings.TrimPrefix(p.Log(), before); strings.Contains(more, `"level":"INFO"`) || strings.Contains(more, "GetLogLevel") {
		t.Errorf("logged at level error:\n%s", more)
	}
}

// level returns the level and its origin.
func level(t *testing.T, c rdmadv1.ProcessServiceClient) string {
	t.Helper()
	res := have(c.GetLogLevel(t.Context(), &rdmadv1.GetLogLevelRequest{}))(t)
	return res.GetLogLevel().GetLevel().String() + " " + res.GetLogLevel().GetOrigin()
}

// TestPingIsNoError: rdmactl ping begins with version 2. A server without it logs no warning,
// and counts no error.
func TestPingIsNoError(t *testing.T) {
	r := newRig(t)
	p := r.start()
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtV2 }, false)
	must(t, c.Call(t.Context(), echoCall(nil)))
	if n := p.metric(t, `rdmad_errors_total{listener="echo"}`); n != 0 {
		t.Errorf("%v errors", n)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := p.waitLog(regexp.MustCompile(`"msg":"connection down"`), 1); err != nil { // else rdmad may stop first
		t.Error(err)
	}
	p.end(t, "TERM", 0)
	if log := p.Log(); strings.Contains(log, `"level":"WARN"`) || !strings.Contains(log, `"reason":"disconnected","calls":1,"replies":1,"errors":0,`) {
		t.Errorf("logged\n%s", log)
	}
}

// TestMetricsPortHasNoProfiles: profiles are for admins of the control plane.
func TestMetricsPortHasNoProfiles(t *testing.T) {
	p := newRig(t).start()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/profile", "/debug/vars"} {
		res, err := http.Get("http://" + p.addresses["metrics"] + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// Times and addresses are text in JSON as well.
func TestLogAsText(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{ReplaceAttr: asText}))
	log.Info("connection down", "up_for", 192500*time.Millisecond, "peer", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1001})
	if want := `"up_for":"3m12.5s","peer":"192.0.2.7:1001"}`; !strings.Contains(text.String(), want) {
		t.Errorf("%s has no %s", text.String(), want)
	}
}

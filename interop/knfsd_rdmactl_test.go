package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"testing"
)

// testRdmactl lets rdmactl ping the kernel's server and measure how many NULL
// calls it answers.
func testRdmactl(t *testing.T, s *kernelServer) {
	program := build(t, t.TempDir(), "rdmactl")
	run := func(t *testing.T, v any, args ...string) {
		ctx, cancel := limit(t, knfsdTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, append(args, "-o", "json", "--timeout", "2m")...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %v\n%s%s", cmd, err, &stdout, &stderr)
		}
		if err := json.Unmarshal(stdout.Bytes(), v); err != nil {
			t.Fatalf("%v: %v in\n%s", cmd, err, &stdout)
		}
		t.Logf("%s", &stdout)
	}
	t.Run("ping", func(t *testing.T) {
		var got struct {
			RPCVersion         int     `json:"rpc_version"`
			RTT                float64 `json:"rtt_us"`
			CreditsGranted     int     `json:"credits_granted"`
			InlineSend         int     `json:"inline_send"`
			InlineReceive      int     `json:"inline_receive"`
			RemoteInvalidation bool    `json:"remote_invalidation"`
		}
		run(t, &got, "ping", s.address)
		if got.RPCVersion != 1 || got.RTT <= 0 || got.CreditsGranted != 64 || got.InlineSend != 4096 || got.InlineReceive != 4096 || got.RemoteInvalidation {
			t.Errorf("ping tells %+v", got)
		}
	})
	t.Run("doctor", func(t *testing.T) { testDoctor(t, s, program) })
	t.Run("version 2 alone", func(t *testing.T) {
		ctx, cancel := limit(t, knfsdTime)
		defer cancel()
		for _, args := range [][]string{
			{"ping", s.address, "--rpc-version", "2"},
			{"bench", s.address, "--op", "null", "--rpc-version", "2"},
		} {
			out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte("does not speak RPC-over-RDMA version 2 (ERR_VERS)")) {
				t.Errorf("%v: %v, %s", args, err, out)
			}
		}
	})
	t.Run("bench", func(t *testing.T) {
		var got struct {
			Ops, Errors uint64
			PerOp       struct {
				Sends, Receives float64
				RoundTrips      float64 `json:"round_trips"`
			} `json:"per_op"`
		}
		run(t, &got, "bench", s.address, "--op", "null", "--program", "100003", "--program-version", "4", "--depth", "16", "--duration", "1s")
		if got.Ops == 0 || got.Errors != 0 || got.PerOp.Sends != 1 || got.PerOp.Receives != 1 || got.PerOp.RoundTrips != 1 {
			t.Errorf("bench tells %+v, want one Send and one Receive for each call", got)
		}
	})
}

// testDoctor examines the kernel's server. What it says of this machine, which is
// no client of the kernel's, is another test's.
func testDoctor(t *testing.T, s *kernelServer, program string) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	_, port, _ := net.SplitHostPort(s.mountd)
	cmd := exec.CommandContext(ctx, program, "doctor", s.address, "--mount-port", port, "-o", "json", "--timeout", "2m")
	out, err := cmd.Output()
	if _, unhealthy := errors.AsType[*exec.ExitError](err); err != nil && !unhealthy {
		t.Fatal(err)
	}
	var report struct {
		Checks []struct{ Name, Result, Reason string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	results := map[string]string{}
	for _, c := range report.Checks {
		results[c.Name] = c.Result
		t.Logf("%s: %s: %s", c.Name, c.Result, c.Reason)
	}
	for _, name := range []string{"tcp", "mpa", "connect", "rpc", "version 2", "inline sizes", "credits", "export"} {
		if results[name] != "OK" {
			t.Errorf("%s: %s, want OK", name, results[name])
		}
	}
	// siw has no memory windows: the server offers no remote invalidation.
	if got := results["remote invalidation"]; got != "WARNING" {
		t.Errorf("remote invalidation: %s", got)
	}
}

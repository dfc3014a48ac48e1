package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAddressFamilies compares what ss shows with the configuration:
// 0.0.0.0 listens on IPv4 alone, [::] on both.
func TestAddressFamilies(t *testing.T) {
	const text = `
state: {path: state}
control: {listen: "HOST:0", insecure: on}
metrics: {listen: "HOST:0"}
services:
  - {name: data, nfs: {path: srv, tcp_listen: "HOST:0"}}
listeners: [{name: nfs, provider: softiwarp, address: "HOST:0", service: data}]
connectors: [{name: out, provider: softiwarp, listen: "HOST:0", target: "127.0.0.1:1"}]
`
	for host, shown := range map[string]string{"0.0.0.0": "0.0.0.0", "[::]": "*"} {
		t.Run(host, func(t *testing.T) {
			dir := t.TempDir()
			config := filepath.Join(dir, "rdmad.yaml")
			must(t, os.WriteFile(config, []byte(strings.ReplaceAll(text, "HOST", host)), 0o600))
			makeDirectory(t, filepath.Join(dir, "srv"))
			p := startRDMAD(t, dir, config)
			defer endRDMAD(t, p)
			out, err := exec.Command("ss", "-Hltnp").Output()
			if err != nil {
				t.Fatalf("ss (Debian package iproute2): %v", err)
			}
			var at []string
			for line := range strings.Lines(string(out)) {
				if !strings.Contains(line, fmt.Sprintf("pid=%d,", p.cmd.Process.Pid)) {
					continue
				}
				local := strings.Fields(line)[3]
				at = append(at, local[:strings.LastIndexByte(local, ':')])
			}
			if want := slices.Repeat([]string{shown}, 5); !slices.Equal(at, want) {
				t.Errorf("listens at %q, want %q:\n%s", at, want, out)
			}
		})
	}
}

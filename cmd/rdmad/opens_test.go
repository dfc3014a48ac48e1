package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckBindsAllAtATime: check refuses addresses that can't be bound at the same time, as the start does. It
// leaves none bound.
func TestCheckBindsAllAtATime(t *testing.T) {
	_, port, _ := net.SplitHostPort(keepPort(t))
	const text = `state: {path: STATE}
services: [{name: test, echo: {}}]
listeners:
  - {name: a, provider: softiwarp, address: "HOST:PORT", service: test}
connectors:
  - {name: b, provider: softiwarp, listen: "127.0.0.1:PORT", target: "127.0.0.1:1"}
`
	for host, want := range map[string]string{
		"localhost": ":6: connectors[0].listen: can't listen on 127.0.0.1:PORT: address already in use; listeners[0].address has this port, too",
		"127.0.0.2": "",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "rdmad.yaml")
		fill := strings.NewReplacer("STATE", filepath.Join(dir, "state"), "HOST", host, "PORT", port)
		must(t, os.WriteFile(file, []byte(fill.Replace(text)), 0o600))
		if want != "" {
			want = file + fill.Replace(want)
		}
		for range 2 {
			o := options{config: file}
			c := have(o.load())(t)
			got := ""
			if err := tryOpening(t.Context(), c, nil); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: got %q, want %q", host, got, want)
			}
		}
	}
}

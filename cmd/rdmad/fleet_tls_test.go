package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

// TestFleetTLS: a CA file for etcd has only complete certificates.
func TestFleetTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := authtest.NewCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.Issue("node", time.Hour); err != nil {
		t.Fatal(err)
	}
	files := &config.FleetTLS{Cert: filepath.Join(dir, "node.pem"), Key: filepath.Join(dir, "node.key"), CA: filepath.Join(dir, "ca.pem")}
	if c, err := fleetTLS(files); err != nil || c.RootCAs == nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.CA, append(text, text[:len(text)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetTLS(files); err == nil {
		t.Error("a CA that is cut off was left out")
	}
}

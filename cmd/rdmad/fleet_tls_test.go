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
	ca := have(authtest.NewCA(dir))(t)
	must(t, ca.Issue("node", time.Hour))
	files := &config.FleetTLS{Cert: filepath.Join(dir, "node.pem"), Key: filepath.Join(dir, "node.key"), CA: filepath.Join(dir, "ca.pem")}
	if c, err := fleetTLS(files); err != nil || c.RootCAs == nil {
		t.Fatal(err)
	}
	text := have(os.ReadFile(files.CA))(t)
	must(t, os.WriteFile(files.CA, append(text, text[:len(text)/2]...), 0o600))
	if _, err := fleetTLS(files); err == nil {
		t.Error("a CA that is cut off was left out")
	}
}

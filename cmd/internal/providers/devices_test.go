package providers

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDevices(t *testing.T) {
	dir := t.TempDir()
	port := filepath.Join(dir, "siw0", "ports", "1")
	if err := os.MkdirAll(port, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"state": "4: ACTIVE\n", "rate": "2.5 Gb/sec (1X SDR)\n", "link_layer": "Ethernet\n"} {
		if err := os.WriteFile(filepath.Join(port, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "worse"), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []DeviceInfo{
		{Name: "siw0", State: "ACTIVE", Rate: "2.5 Gb/sec (1X SDR)", Link: "Ethernet"},
		{Name: "worse", State: "?", Rate: "?", Link: "?"},
	}
	if got := devicesIn(dir); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := devicesIn(filepath.Join(dir, "none")); got != nil {
		t.Errorf("without a directory: %+v", got)
	}
}

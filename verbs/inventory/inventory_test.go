package inventory

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// class makes a directory as the kernel's, of files by their names.
func class(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestDevices(t *testing.T) {
	dir := class(t, map[string]string{
		"siw0/node_type":            "4: RNIC\n",
		"siw0/fw_ver":               "\n",
		"siw0/ports/1/state":        "4: ACTIVE\n",
		"siw0/ports/1/rate":         "2.5 Gb/sec (1X SDR)\n",
		"siw0/ports/1/link_layer":   "Ethernet\n",
		"siw0/ports/1/gids/0":       "5254:0012:3456:0000:0000:0000:0000:0000\n",
		"mlx5_0/node_type":          "1: CA\n",
		"mlx5_0/fw_ver":             "20.31.1014\n",
		"mlx5_0/ports/2/state":      "1: DOWN\n",
		"mlx5_0/ports/2/rate":       "100 Gb/sec (4X EDR)\n",
		"mlx5_0/ports/1/state":      "4: ACTIVE\n",
		"mlx5_0/ports/1/rate":       "100 Gb/sec (4X EDR)\n",
		"mlx5_0/ports/x":            "",
		"rxe0/node_type":            "1: CA\n",
		"rxe0/ports/1/link_layer":   "Ethernet\n",
		"rxe0/ports/1/gids/0":       "fe80:0000:0000:0000:5054:00ff:fe12:3456\n",
		"rxe0/ports/1/gids/1":       "0000:0000:0000:0000:0000:ffff:0a00:020f\n",
		"rxe0/ports/1/gids/2":       "fd00:0000:0000:0000:0000:0000:0000:0002\n",
		"rxe0/ports/1/gids/3":       "0000:0000:0000:0000:0000:ffff:0a00:020f\n",
		"rxe0/ports/1/gids/4":       "0000:0000:0000:0000:0000:0000:0000:0000\n",
		"worse/no/attribute/at/all": "",
	})
	want := []Device{
		{Name: "mlx5_0", Transport: "InfiniBand", Firmware: "20.31.1014", Ports: []Port{
			{Number: 1, State: "ACTIVE", Rate: "100 Gb/sec (4X EDR)", Link: "?"},
			{Number: 2, State: "DOWN", Rate: "100 Gb/sec (4X EDR)", Link: "?"},
		}},
		{Name: "rxe0", Transport: "RoCE", Firmware: "?", Ports: []Port{
			{Number: 1, State: "?", Rate: "?", Link: "Ethernet", Addresses: []netip.Addr{netip.MustParseAddr("10.0.2.15"), netip.MustParseAddr("fd00::2")}},
		}},
		{Name: "siw0", Transport: "iWARP", Ports: []Port{{Number: 1, State: "ACTIVE", Rate: "2.5 Gb/sec (1X SDR)", Link: "Ethernet"}}},
		{Name: "worse", Transport: "?", Firmware: "?"},
	}
	if got := devicesIn(dir); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := devicesIn(filepath.Join(dir, "none")); got != nil {
		t.Errorf("without a directory: %+v", got)
	}
}

func TestPortState(t *testing.T) {
	dir := class(t, map[string]string{"siw0/ports/1/state": "1: DOWN\n"})
	if got, err := PortState(dir, "siw0", 1); got != "DOWN" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := PortState(dir, "siw0", 2); err == nil {
		t.Errorf("of no port: %q", got)
	}
}

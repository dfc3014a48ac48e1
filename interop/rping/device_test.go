//go:build rdmacore && cgo && rdmadevice

package rping

import (
	"errors"
	"flag"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Tests with the tag rdmadevice run in the guest, where package interop plays
// the other role.
var (
	deviceFlag  = flag.String("rdmacore.device", "", "device to test, the first one when empty")
	addressFlag = flag.String("rdmacore.address", "", "IP address of the device")
	portFlag    = flag.String("rping.port", "", "port to serve on")
	serverFlag  = flag.String("rping.server", "", "address of the server to play with")
	sizesFlag   = flag.String("rping.sizes", "", "payloads in bytes, of one client each")
	countFlag   = flag.Int("rping.count", 0, "pings of each client")
)

func newRdmacore(t *testing.T) rdmacm.Provider {
	t.Helper()
	p, err := rdmacore.New(rdmacore.Config{Tuning: tuning.Settings{Device: *deviceFlag}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { verbstest.CloseProvider(t, p) })
	return p
}

// TestDeviceServer serves one client for each size.
func TestDeviceServer(t *testing.T) {
	p := newRdmacore(t)
	l, err := p.Listen(t.Context(), *addressFlag+":"+*portFlag)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	for range strings.Split(*sizesFlag, ",") {
		wg.Go(func() {
			id, err := l.GetRequest(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			// How the connection ends is not told apart: siw of 6.1 calls a
			// Send that the peer's end overtakes a failure of its own.
			if pings, err := Serve(t.Context(), id); pings != *countFlag {
				t.Errorf("%d pings: %v", pings, err)
			}
		})
	}
	wg.Wait()
}

// TestDeviceClient runs one client for each size, all at once.
func TestDeviceClient(t *testing.T) {
	p := newRdmacore(t)
	var wg sync.WaitGroup
	for _, word := range strings.Split(*sizesFlag, ",") {
		size, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Dial(t.Context(), p, *serverFlag)
		if err != nil {
			t.Errorf("connecting: %v", err)
			break
		}
		wg.Go(func() {
			if err := errors.Join(c.Ping(t.Context(), size, *countFlag), c.Close()); err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		})
	}
	wg.Wait()
}

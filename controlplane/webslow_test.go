package controlplane_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane"
)

// TestBrowsersThatDoNotReadHarmNobody: browsers open the streams of the page and read
// nothing more, while 64 calls are in flight all the time and settings change. Calls
// and changes go on, and what waits for the browsers has a bound.
func TestBrowsersThatDoNotReadHarmNobody(t *testing.T) {
	plane := dataplane.New(dataplane.Config{})
	b := open(t, func(cfg *controlplane.Config) {
		cfg.Dataplane = plane
		cfg.Access.Rate = auth.Rate{PerSecond: 1e6, Burst: 1e6}
	}).login()
	plane.ApplySettings(dataplane.Update{Resolve: b.control.Settings.Resolve}, nil)
	stop := traffic(t, plane)
	const browsers = 4
	for range browsers {
		b.stall("TelemetryService/WatchTelemetry", `{"interval": "0.1s"}`)
		b.stall("ConnectionService/WatchConnections", `{}`)
		b.stall("SettingsService/WatchSettings", `{}`)
		b.stall("DiagnosticsService/Trace", `{}`)
	}
	reads, changes := b.request("DiagnosticsService/Trace", `{}`), 0
	// while changes settings until a browser that reads has read that much.
	while := func(bytes int64) (grown int64) {
		before, done := heap(), make(chan struct{})
		go func() {
			defer close(done)
			if _, err := io.CopyN(io.Discard, reads, bytes); err != nil {
				t.Error(err)
			}
		}()
		changes += change(t, b.client, done)
		return heap() - before
	}
	while(50_000) // until what may wait is full
	grown := while(150_000)
	answered := stop()
	t.Logf("%d calls answered and %d changes made beside %d browsers; the heap grew by %d bytes", answered, changes, browsers, grown)
	if grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// request writes a request for a stream to a connection of its own.
func (b *browser) request(method, body string) net.Conn {
	b.t.Helper()
	address := strings.TrimPrefix(b.base, "http://")
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	must(b.t, c.(*net.TCPConn).SetReadBuffer(4096))
	message := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))) + body
	_, err = fmt.Fprintf(c, "POST /rdmad.v1.%s HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nCookie: %s\r\nContent-Type: application/connect+json\r\nConnect-Protocol-Version: 1\r\nContent-Length: %d\r\n\r\n%s",
		method, address, b.base, b.cookies[0], len(message), message)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// stall begins a stream and reads no more than that it has begun.
func (b *browser) stall(method, body string) {
	b.t.Helper()
	const want = "HTTP/1.1 200 OK\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(b.request(method, body), got); err != nil || string(got) != want {
		b.t.Fatalf("%s: %q, %v", method, got, err)
	}
}

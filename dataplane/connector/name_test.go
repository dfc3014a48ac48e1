package connector

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// twoFamilies answers one question of a resolver: the loopback address of IPv4 or of IPv6.
func twoFamilies(nc net.Conn) {
	defer nc.Close()
	b := make([]byte, 512)
	n, err := nc.Read(b)
	if err != nil {
		return
	}
	query := b[2:n] // after its length
	end := 12 + bytes.IndexByte(query[12:], 0) + 5
	address := []byte{127, 0, 0, 1}
	if binary.BigEndian.Uint16(query[end-4:]) == 28 { // AAAA
		address = net.IPv6loopback
	}
	answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, query[12:end]...)
	answer = append(append(answer, 0xc0, 12), query[end-4:end]...) // the same name, type and class
	answer = append(answer, 0, 0, 0, 60, 0, byte(len(address)))
	answer = append(answer, address...)
	_, _ = nc.Write(append([]byte{0, byte(len(answer))}, answer...))
}

// TestTargetOfTwoFamilies: the target's name has an address of IPv4, where it listens, and one
// of IPv6, where nobody does. Clients go where the probe goes.
func TestTargetOfTwoFamilies(t *testing.T) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go twoFamilies(theirs)
		return ours, nil
	}}
	r := newTargetless(t, providers[1].make(t)) // the loopback provider takes no names
	var at Config
	r.listen(echo.New(), &at)
	_, port, err := net.SplitHostPort(at.Target)
	if err != nil {
		t.Fatal(err)
	}
	r.connect(Config{Connector: spec.Connector{Target: net.JoinHostPort("target.test", port)}})
	if _, err := r.c.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	if _, err := echoCall(t.Context(), r.dial(rpctcp.ClientConfig{}), echo.ProcNull, nil); err != nil {
		t.Error(err)
	}
}

package auth

import (
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// TestTurns: a handshake leaves its turn while it reads, and goes on with the next turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		h, read := &handshaking{near, newTurns()}, false
		h.turns.take()
		go func() {
			if _, err := h.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			read = true
		}()
		h.turns.take() // it reads
		if _, err := far.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if read {
			t.Error("two had the turn")
		}
		h.turns.leave()
		synctest.Wait()
		if !read {
			t.Error("it did not get the next turn")
		}
	})
}

// TestStalledHandshakes: clients that stop anywhere in their handshakes keep nobody waiting.
func TestStalledHandshakes(t *testing.T) {
	ca := newAuthority(t, "ca")
	var log logtest.Log
	s, _ := secure(t, newFiles(t, ca, ca), &log)
	// A client's first flight, as it leaves the TLS client.
	near, far := net.Pipe()
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: "rdmad", MinVersion: tls.VersionTLS13}).Handshake()
	}()
	hello := make([]byte, 4096)
	n, err := far.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	for _, sent := range []int{0, 1, 5, n / 2, n - 1, n} {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write(hello[:sent]); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := s.call(t, caller(ca, ca.pair(named("ops-1")))); err != nil || id.Name != "ops-1" {
		t.Errorf("%+v, %v", id, err)
	}
}

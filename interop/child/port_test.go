package child

import (
	"net"
	"testing"
)

// TestKeepPort listens on a kept port twice. In between, connections to it are refused.
func TestKeepPort(t *testing.T) {
	address, kept, err := KeepPort()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for range 2 {
		if c, err := net.Dial("tcp", address); err == nil {
			t.Error("somebody listens")
			c.Close()
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		l.Close()
	}
}

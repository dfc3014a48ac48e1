package auth

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestLocal: the user of a connection from this machine is known as soon as it is accepted.
func TestLocal(t *testing.T) {
	p := policy(t, Rules{})
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if uid, ok := p.Local(c); !ok || int(uid) != os.Getuid() {
			t.Errorf("%s: uid %d, %v", network, uid, ok)
		}
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if uid, ok := p.Local(a); ok {
		t.Errorf("a pipe is of uid %d", uid)
	}
}

package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestTotals: they are those of all listeners, ended connections included.
func TestTotals(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	var clients []*rpcrdma.Client
	for _, address := range []string{p.listen("a", echo.New()), p.listen("b", echo.New()), p.listen("c", echo.New())} {
		for range 2 {
			c, _ := p.dial(address, nil)
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
	}
	for up := len(clients); ; up-- {
		if connections, sum := p.Totals(); connections != up || sum.Calls != uint64(len(clients)) {
			t.Errorf("%d connections, %+v", connections, sum)
		}
		if up == 0 {
			break
		}
		clients[up-1].Close()
		p.next(ConnDown)
	}
}

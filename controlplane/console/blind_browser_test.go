package console_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// tunnel is a way to a console, such as that of ssh -L, which can be cut.
type tunnel struct {
	t       *testing.T
	to      string
	address string
	cut     func()
}

// mend makes the tunnel work.
func (u *tunnel) mend() {
	u.t.Helper()
	l, err := net.Listen("tcp", u.address)
	if err != nil {
		u.t.Fatal(err)
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	open := map[net.Conn]bool{}
	keep := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		open[c] = true
	}
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", u.to)
			if err != nil {
				from.Close()
				continue
			}
			keep(from)
			keep(to)
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				running.Go(func() {
					_, _ = io.Copy(pair[0], pair[1]) // until one end closes
					pair[0].Close()
				})
			}
		}
	})
	u.cut = func() {
		l.Close()
		mu.Lock()
		for c := range open {
			c.Close()
		}
		mu.Unlock()
		running.Wait()
	}
}

// TestBlind: while rdmad cannot be reached the page says since when, and goes on by
// itself afterwards. It shows what happened meanwhile.
func TestBlind(t *testing.T) {
	p := open(t, auth.Admin)
	u := &tunnel{t: t, to: p.console, address: keepPort(t)}
	u.mend()
	defer func() { u.cut() }()
	p.console = u.address
	through := func(address string) string { return strings.Replace(address, u.to, u.address, 1) }
	p.loginAt(through)
	p.do("live", p.navigate("#/connections/1"), text("h1", "Connection 1"), now("Calls: all", ` !== "…"`))
	u.cut()
	p.do("blind", text("#alarm", "rdmad does not answer since 20"), text("h1", "Connection 1"))
	p.setMinChunk(2048)
	u.mend()
	p.do("again", holds("document.getElementById('alarm').hidden"), text("#notice", "rdmad did not answer from 20"), text("td", "2048"))
	p.busy("1")
	p.do("live again", now("Calls: all", ` > "0"`))
}

// TestRestart: after a restart of rdmad, a new session in the same tab shows the view
// of before.
func TestRestart(t *testing.T) {
	p := open(t, auth.Admin)
	p.do("live", p.navigate("#/connections?filter=192"), text(".bar", "2 of 2 shown"))
	p.stop()
	p.do("blind", text("#alarm", "rdmad does not answer since 20"))
	p.serve(auth.Admin, p.console)
	p.do("another rdmad", text("h1", "No session"), text("main", "rdmad has restarted"), text("main .command code", "rdmactl console"))
	res, err := rdmadv1.NewConsoleServiceClient(p.client).OpenConsole(t.Context(), &rdmadv1.OpenConsoleRequest{})
	if err != nil {
		t.Fatal(err)
	}
	p.do("a new session", chromedp.Navigate(res.GetAddress()), text(".bar", "2 of 2 shown"), holds("location.hash === '#/connections?filter=192'"))
}

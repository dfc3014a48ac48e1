package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

const (
	// idleEnv makes the test's program the clients of TestIdleConnection. Its value
	// is the address of their server, and their number.
	idleEnv = "RDMAD_TEST_IDLE_CLIENTS"
	// idleClients is enough for what the process has once to count little.
	idleClients = 512
	// idleCredits is what they are granted: as many as before their first call.
	idleCredits = 8
)

// TestIdleConnection: an idle connection of softiwarp that has answered a call has
// no goroutine, and at most 16 KiB beside its receives: heap, stack and registered
// memory. It still answers. The clients are another process, so that all there is
// here is the server's.
func TestIdleConnection(t *testing.T) {
	const most = 16 << 10
	s := newIdleServer(t)
	s.serve(1).leave() // what is made once
	bytes, goroutines := s.inUse()
	c := s.serve(idleClients)
	c.rest()
	nowBytes, nowGoroutines := s.inUse()
	receives := idleClients * (idleCredits + 2) * regmem.Footprint(int(settings.Default().InlineReceiveSize))
	perConn := (nowBytes - bytes - receives) / idleClients
	t.Logf("%d bytes per connection beside its receives", perConn)
	if perConn > most && !raceEnabled {
		t.Errorf("that is more than %d", most)
	}
	if n := nowGoroutines - goroutines; n > 8 { // those that wait for the clients, and workers
		t.Errorf("%d connections have %d goroutines", idleClients, n)
	}
	c.call()
	c.rest()
	c.leave()
	s.close()
}

var ok = verbstest.Must

// idleServer accepts connections over softiwarp.
type idleServer struct {
	t  *testing.T
	p  rdmacm.Provider
	h  *Host
	ln rdmacm.Listener
}

func newIdleServer(t *testing.T) *idleServer {
	p, err := softiwarp.New(softiwarp.Config{})
	ok(t, err)
	h, err := NewHost(HostConfig{Device: p.Device(), Role: RoleResponder})
	ok(t, err)
	ln, err := p.Listen(t.Context(), "127.0.0.1:0")
	ok(t, err)
	return &idleServer{t, p, h, ln}
}

func (s *idleServer) close() {
	ok(s.t, s.ln.Close())
	ok(s.t, s.h.Close())
	ok(s.t, s.p.Close())
}

// inUse are the bytes of the Go heap, of stacks and of registered buffers, and the
// goroutines.
func (s *idleServer) inUse() (bytes, goroutines int) {
	var m runtime.MemStats
	for range 3 { // pools let go of what they hold
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc+m.StackInuse) + int(s.h.Memory().Taken), runtime.NumGoroutine()
}

// idleClientsOf are the process with the clients, and their connections here.
type idleClientsOf struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	conns []*Responder
}

// nothing answers every call.
type nothing struct{}

func (nothing) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return nil }

// serve accepts n clients, each of which makes a call.
func (s *idleServer) serve(n int) *idleClientsOf {
	t := s.t
	c := &idleClientsOf{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", idleEnv, s.ln.Addr(), n))
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	ok(t, err)
	out, err := c.cmd.StdoutPipe()
	ok(t, err)
	ok(t, c.cmd.Start())
	c.in, c.out = in, bufio.NewReader(out)
	for range n {
		c.conns = append(c.conns, s.accept())
	}
	c.call()
	return c
}

func (s *idleServer) accept() *Responder {
	id, err := s.ln.GetRequest(s.t.Context())
	ok(s.t, err)
	settings := settings.Default()
	settings.CreditsMax = idleCredits
	r, err := NewResponder(s.h, id, ResponderConfig{
		Handler: nothing{}, Settings: &settings, PeerReceive: 4096, PeerSend: 4096, ToldSend: 4096, Reads: 1,
	})
	ok(s.t, err)
	ok(s.t, id.Accept(s.t.Context(), rdmacm.ConnParam{ResponderResources: 16, InitiatorDepth: 16}))
	ok(s.t, r.Start(func() {}))
	return r
}

// call has each client make a call.
func (c *idleClientsOf) call() {
	_, err := fmt.Fprintln(c.in)
	ok(c.t, err)
	_, err = c.out.ReadString('\n')
	ok(c.t, err)
}

// rest makes the connections rest, as ticks do.
func (c *idleClientsOf) rest() {
	for _, r := range c.conns {
		for !r.rests() {
			ok(c.t, r.Err())
			runtime.Gosched()
		}
	}
}

// rests says whether the connection rests, with nothing on its way, and makes it.
func (r *Responder) rests() bool {
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	r.restIfIdle()
	return r.sq.used == 0 && r.idling.sleep.Load() == resting
}

// leave ends the clients, and waits until their connections are freed.
func (c *idleClientsOf) leave() {
	ok(c.t, c.in.Close())
	ok(c.t, c.cmd.Wait())
	for _, r := range c.conns {
		<-r.Done()
	}
}

// beIdle is the clients' process. They call once for each line of its input.
func beIdle(what string) error {
	var address string
	var n int
	if _, err := fmt.Sscan(what, &address, &n); err != nil {
		return err
	}
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		return err
	}
	h, err := NewHost(HostConfig{Device: p.Device(), Role: RoleRequester})
	if err != nil {
		return err
	}
	clients := make([]*Requester, n)
	for i := range clients {
		if clients[i], err = connectIdle(p, h, address); err != nil {
			return err
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for _, c := range clients {
			err = errors.Join(err, c.Call(context.Background(), &RPC{}))
		}
		if err != nil {
			return err
		}
		fmt.Println("called")
	}
	return nil
}

func connectIdle(p rdmacm.Provider, h *Host, address string) (*Requester, error) {
	ctx := context.Background()
	id, err := p.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	s := settings.Default()
	r, err := NewRequester(h, id, RequesterConfig{Settings: &s, ToldSend: 4096})
	if err != nil {
		return nil, err
	}
	if err := id.Connect(ctx, rdmacm.ConnParam{ResponderResources: 16, InitiatorDepth: 16}); err != nil {
		return nil, err
	}
	return r, r.Start(4096, 4096)
}

//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func onRXE() bool { return strings.HasPrefix(*deviceFlag, "rxe") }

// sendInVain posts a Send that has no path, and waits until the connection has ended on that
// side.
func (o *outage) sendInVain(s *verbstest.Side) {
	o.Helper()
	if _, err := s.QP.PostSend([]verbs.SendWR{{ID: 1, Op: verbs.OpSend}}); err != nil {
		o.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	select {
	case <-s.ID.Disconnected():
	case <-ctx.Done():
		o.Fatal("a connection does not end")
	}
}

// On rxe, the peer is notified of a connection that ends while its port is down only once the
// port is up. Otherwise the device could no longer receive.
func TestEndWhileDown(t *testing.T) {
	o := newOutage(t, *addressFlag+":0")
	pair := o.connect()
	system(t, "ip link set "+network+" down")
	o.sendInVain(pair.B)
	if onRXE() {
		select {
		case <-pair.A.ID.Disconnected():
			t.Error("the peer knows already")
		default:
		}
	}
	system(t, "ip link set "+network+" up")
	o.waitEnd(pair)
	o.waitHealth("")
	o.connect().Close()
}

// An rxe device that no longer receives requests makes listeners unhealthy, until another
// device replaces it.
func TestDeaf(t *testing.T) {
	if !onRXE() {
		return
	}
	o := newOutageWith(t, *addressFlag+":0", Config{Tuning: tuning.Settings{AckTimeout: 67 * time.Millisecond}})
	everywhere, err := o.p.Listen(t.Context(), "0.0.0.0:0")
	must(t, err)
	defer everywhere.Close()
	pair := o.connect()
	system(t, "ip link set "+network+" down")
	o.sendInVain(pair.B)
	pair.B.ID.(*connID).forget()
	pair.B.Close()
	system(t, "ip link set "+network+" up")
	o.waitHealth(*deviceFlag + " hears no connection requests")
	o.waitHealthOf(everywhere, errNoPort.Error())
	// A's peer is gone, and could not notify A.
	o.waitEnd(&verbstest.Pair{A: pair.A, B: pair.A})
	system(t, "rdma link del "+*deviceFlag+"; rdma link add "+*deviceFlag+" type rxe netdev "+network)
	o.waitHealth("")
	o.waitHealthOf(everywhere, "")
	o.connect().Close()
}

// TestAddressMoved: a listener whose address moves to another device's interface follows it,
// without an event.
func TestAddressMoved(t *testing.T) {
	const address = "10.9.0.15"
	kind := strings.TrimSuffix(*deviceFlag, "0")
	system(t, `modprobe veth
[ -e /sys/class/net/v0 ] || /sbin/ip link add v0 type veth peer name v1
for i in 0 1; do /sbin/ip link set v$i up; rdma link add moved$i type `+kind+` netdev v$i; done
/sbin/ip addr add `+address+`/24 dev v0`)
	p, err := New(Config{})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	must(t, p.resolveNew(ctx, t, address+":1").Close())
	o := newOutageOf(t, p, address+":0")
	o.to = address
	// Before the provider is closed: the kernel waits until the device is closed everywhere,
	// and librdmacm keeps all devices open without reporting it.
	t.Cleanup(func() {
		if out, err := exec.Command("/bin/sh", "-c", "/sbin/ip addr flush dev v1; rdma link del moved0; rdma link del moved1").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, device := range []string{"moved0", "moved1"} {
		pair := o.connectInTime()
		for _, s := range []*verbstest.Side{pair.A, pair.B} {
			if got := s.ID.Device().Attr().Name; got != device {
				t.Errorf("a connection is on %s, not on %s", got, device)
			}
		}
		pair.Close()
		system(t, "/sbin/ip addr del "+address+"/24 dev v0 2>/dev/null && /sbin/ip addr add "+address+"/24 dev v1 || true")
	}
}

// connectInTime connects as soon as the listener can be reached. A request that siw has for
// the earlier listener, on the current device, can't be accepted.
func (o *outage) connectInTime() *verbstest.Pair {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	passive := make(chan *verbstest.Side, 1)
	go func() {
		s, err := verbstest.Accept(ctx, o, o.ln, verbstest.Options{})
		for err != nil && ctx.Err() == nil {
			s, err = verbstest.Accept(ctx, o, o.ln, verbstest.Options{})
		}
		passive <- s
	}()
	var a *verbstest.Side
	o.until("a connection", func() (done bool) {
		var err error
		a, err = verbstest.Dial(ctx, o, o.p, o.target(), verbstest.Options{})
		return err == nil
	})
	b := <-passive
	if b == nil {
		o.Fatal("the listener accepts nothing")
	}
	pair := &verbstest.Pair{A: a, B: b}
	pair.Exchange(1)
	return pair
}

// forget makes Close notify the peer at once, as programs do that don't know the problem.
func (id *connID) forget() {
	id.p.mu.Lock()
	id.p.held = nil
	id.p.mu.Unlock()
	id.mu.Lock()
	id.held = false
	id.mu.Unlock()
}

// TestKeepAlive: an idle connection stays up while the peer can be reached, without the
// consumers noticing, and ends when the peer can't be reached.
func TestKeepAlive(t *testing.T) {
	config := Config{Tuning: tuning.Settings{KeepAlive: tuning.MinKeepAlive}}
	o := newOutageWith(t, *addressFlag+":0", config)
	pair := o.connect()
	a, b := pair.A.QP.(*queuePair), pair.B.QP.(*queuePair)
	atA, atB := a.completions(), b.completions()
	o.until("probes complete", func() bool {
		var wc [1]verbs.WC
		if pair.A.SendCQ.Poll(wc[:])+pair.B.SendCQ.Poll(wc[:]) > 0 {
			t.Fatalf("the consumer sees %+v", wc)
		}
		return a.completions()-atA >= 1<<32 && b.completions()-atB >= 1<<32
	})
	pair.Exchange(2)
	system(t, "ip link set "+network+" down")
	o.waitEnd(pair)
	system(t, "ip link set "+network+" up")
	o.waitHealth("")
	o.connect().Close()
}

// until waits until something is true.
func (o *outage) until(what string, is func() bool) {
	o.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			o.Fatalf("not in time: %s", what)
		}
	}
}

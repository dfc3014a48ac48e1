//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// network is the interface of the device under test.
const network = "eth0"

// system runs a command that changes the guest.
func system(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-ec", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// outage is a listener whose device, port and address go and come back.
type outage struct {
	*testing.T
	p  *Provider
	ln rdmacm.Listener
	to string // IP address to connect to
}

// target returns the address to connect to.
func (o *outage) target() string {
	return net.JoinHostPort(o.to, strconv.Itoa(int(o.ln.Addr().Port())))
}

func newOutage(t *testing.T, address string) *outage { return newOutageWith(t, address, Config{}) }

func newOutageWith(t *testing.T, address string, config Config) *outage {
	return newOutageOf(t, newProvider(t, config), address)
}

func newOutageOf(t *testing.T, p *Provider, address string) *outage {
	ln, err := p.Listen(t.Context(), address)
	must(t, err)
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		verbstest.CloseProvider(t, p)
	})
	return &outage{t, p, ln, *addressFlag}
}

// waitHealth waits until the listener's reason matches; "" means that it is healthy.
func (o *outage) waitHealth(want string) {
	o.Helper()
	o.waitHealthOf(o.ln, want)
}

func (o *outage) waitHealthOf(ln rdmacm.Listener, want string) {
	o.Helper()
	match := regexp.MustCompile(want)
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	for {
		changed, reason := ln.(rdmacm.Monitored).Health()
		if want == "" && reason == nil || want != "" && reason != nil && match.MatchString(reason.Error()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			o.Fatalf("the listener says %v, not %q", reason, want)
		}
	}
}

// connect makes a connection through the listener.
func (o *outage) connect() *verbstest.Pair {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	passive := make(chan *verbstest.Side, 1)
	go func() {
		s, err := verbstest.Accept(ctx, o, o.ln, verbstest.Options{})
		if err != nil {
			o.Errorf("passive: %v", err)
		}
		passive <- s
	}()
	a, err := verbstest.Dial(ctx, o, o.p, o.target(), verbstest.Options{})
	if err != nil {
		cancel()
		<-passive
		o.Fatalf("active: %v", err)
	}
	pair := &verbstest.Pair{A: a, B: <-passive}
	pair.Exchange(1)
	return pair
}

// waitEnd waits until both sides of a connection have ended, and closes them.
func (o *outage) waitEnd(pair *verbstest.Pair) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), verbstest.Patience)
	defer cancel()
	for _, side := range []*verbstest.Side{pair.A, pair.B} {
		select {
		case <-side.ID.Disconnected():
			if side.QP.Err() == nil {
				o.Error("a connection ended without a reason")
			}
		case <-ctx.Done():
			o.Error("a connection does not end")
		}
	}
	pair.Close()
}

func TestPortDown(t *testing.T) {
	o := newOutage(t, *addressFlag+":0")
	o.connect().Close()
	system(t, "ip link set "+network+" down")
	o.waitHealth("port 1 of " + *deviceFlag + " is DOWN")
	system(t, "ip link set "+network+" up")
	o.waitHealth("")
	o.connect().Close()
}

func TestAddressGone(t *testing.T) {
	o := newOutage(t, *addressFlag+":0")
	o.connect().Close()
	before := o.ln.Addr()
	system(t, "ip addr del "+*addressFlag+"/24 dev "+network)
	o.waitHealth("no interface has address " + *addressFlag)
	system(t, "ip addr add "+*addressFlag+"/24 dev "+network)
	o.waitHealth("")
	if o.ln.Addr() != before {
		t.Errorf("it listens on %v now, not on %v", o.ln.Addr(), before)
	}
	o.connect().Close()
}

// A device with another name, as udev's rules give one, is the same device.
func TestDeviceRenamed(t *testing.T) {
	o := newOutage(t, *addressFlag+":0")
	pair := o.connect()
	defer pair.Close()
	system(t, "rdma dev set "+*deviceFlag+" name renamed0")
	defer system(t, "rdma dev set renamed0 name "+*deviceFlag)
	o.p.lookForRemoved()
	pair.Exchange(2)
	if got := pair.A.ID.Device().(*device).ctx.nameNow(); got != "renamed0" {
		t.Errorf("its name is said to be %q", got)
	}
	o.waitHealth("")
	o.connect().Close()
}

// The kernel removes a device once everything on it is closed, even if many connections are
// up. A listener finds the device that replaces it.
func TestDeviceRemoved(t *testing.T) {
	for _, address := range []string{*addressFlag, "0.0.0.0"} {
		t.Run(address, func(t *testing.T) {
			o := newOutage(t, address+":0")
			kind := strings.TrimSuffix(*deviceFlag, "0")
			for range 2 {
				pairs := []*verbstest.Pair{o.connect(), o.connect()}
				dev := pairs[0].A.ID.Device()
				system(t, "rdma link show | grep -q "+*deviceFlag)
				removal := exec.CommandContext(t.Context(), "rdma", "link", "del", *deviceFlag)
				must(t, removal.Start())
				for _, pair := range pairs {
					o.waitEnd(pair)
				}
				<-dev.(verbs.Removable).Removed()
				if err := removal.Wait(); err != nil {
					t.Errorf("rdma link del: %v", err)
				}
				o.waitHealth("device removed|no RDMA device has an active port")
				system(t, "rdma link add "+*deviceFlag+" type "+kind+" netdev "+network)
				o.waitHealth("")
			}
			o.connect().Close()
		})
	}
}

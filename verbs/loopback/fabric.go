package loopback

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Transport selects the rules of a fabric where transports differ.
type Transport uint8

const (
	// IWARP completes Sends and Writes when they have been sent. It ends the connection
	// with a Terminate on a protection error or when no Receive is posted. A Read has
	// exactly one sink entry.
	IWARP Transport = iota
	// InfiniBand completes Sends and Writes when the peer has acknowledged them, with the
	// peer's status. A Send without a posted Receive waits for one (RNR NAK, rnr_retry 7).
	InfiniBand
)

// FabricConfig configures a fabric.
type FabricConfig struct {
	Transport Transport
	// Delay is the initial one-way delay; see Fabric.SetDelay.
	Delay time.Duration
}

// Fabric is the network between providers: listener addresses, delay and
// faults. All methods may be called from any goroutine.
type Fabric struct {
	transport Transport
	delay     atomic.Int64
	faults    atomic.Pointer[Faults]

	mu        sync.Mutex
	listeners map[netip.AddrPort]*listener
	lastPort  uint16
}

// NewFabric makes a fabric without listeners or faults.
func NewFabric(c FabricConfig) *Fabric {
	f := &Fabric{
		transport: c.Transport,
		listeners: make(map[netip.AddrPort]*listener),
		lastPort:  firstPort - 1,
	}
	f.SetDelay(c.Delay)
	f.SetFaults(Faults{})
	return f
}

// SetDelay changes the one-way delay of all later messages, including connection requests.
// Messages never overtake each other.
func (f *Fabric) SetDelay(d time.Duration) { f.delay.Store(int64(max(d, 0))) }

// Delay returns the current one-way delay.
func (f *Fabric) Delay() time.Duration { return time.Duration(f.delay.Load()) }

// firstPort is the first of the ports that the fabric selects itself (the dynamic ports of
// RFC 6335 §6).
const firstPort = 49152

// nextPort selects a port number. f.mu is held.
func (f *Fabric) nextPort() uint16 {
	f.lastPort = max(f.lastPort+1, firstPort) // after the highest it is 0
	return f.lastPort
}

// localAddr returns a new address for the active side of a connection.
func (f *Fabric) localAddr(host netip.Addr) netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	return netip.AddrPortFrom(host, f.nextPort())
}

// lookup returns the listener for an address: on the address itself, or on the port on any
// address.
func (f *Fabric) lookup(a netip.AddrPort) *listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.listeners[a]; ok {
		return l
	}
	for _, host := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if l, ok := f.listeners[netip.AddrPortFrom(host, a.Port())]; ok {
			return l
		}
	}
	return nil
}

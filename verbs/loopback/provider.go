package loopback

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Config configures a provider. The zero value is valid.
type Config struct {
	// Fabric connects the provider with others. nil creates one from Network for this
	// provider alone.
	Fabric  *Fabric
	Network FabricConfig
	// Host is the address from which connections are made, 127.0.0.1 if unset.
	Host netip.Addr
	// DeviceName is DeviceAttr.Name, "loopback0" if empty.
	DeviceName string
	// MaxReads limits IRD and ORD of each connection. 0 means 128.
	MaxReads int
	// NoWindows and NoSendInvalidate make a device that lacks memory windows
	// or Send With Invalidate.
	NoWindows        bool
	NoSendInvalidate bool
	// ReadSinkRemoteWrite makes a device whose RDMA Reads need that right of their sinks,
	// as on iWARP adapters (verbs.DeviceAttr).
	ReadSinkRemoteWrite bool
}

// Provider is one device on a fabric. It implements rdmacm.Provider.
type Provider struct {
	fabric  *Fabric
	host    netip.Addr
	backlog int // of requests at a listener; for a further one, the oldest of the peer that has the most is rejected
	dev     *driver.SoftDevice
	users   driver.Users // listeners and identifiers
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a provider. If everything made on it is closed, it needs no Close.
func New(c Config) *Provider {
	if c.Fabric == nil {
		c.Fabric = NewFabric(c.Network)
	}
	if !c.Host.IsValid() {
		c.Host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return &Provider{fabric: c.Fabric, host: c.Host, backlog: 4096, dev: newDevice(c)}
}

// Name returns "loopback".
func (p *Provider) Name() string { return "loopback" }

// Descriptors returns 0.
func (p *Provider) Descriptors() int { return 0 }

// Device returns the provider's only device.
func (p *Provider) Device() verbs.Device { return p.dev }

// Fabric returns the network that the provider is on.
func (p *Provider) Fabric() *Fabric { return p.fabric }

// Resolve makes an identifier for a connection. It does not check whether there is a
// listener; Connect does.
func (p *Provider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	to, err := p.parse(address)
	if err != nil {
		return nil, err
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	return newLink(p, p.fabric.localAddr(p.host), to), nil
}

// Close frees the device. It returns ErrBusy while anything made on it exists.
func (p *Provider) Close() error {
	_, err := p.users.Close("loopback: provider", p.dev.Close)
	return err
}

// parse parses host:port. The only name on the fabric is localhost. An empty host means any
// address.
func (p *Provider) parse(address string) (netip.AddrPort, error) {
	host, port, err := driver.SplitAddress(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("loopback: %w", err)
	}
	switch host {
	case "":
		return netip.AddrPortFrom(netip.IPv4Unspecified(), port), nil
	case "localhost":
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("loopback: %w: %w", verbs.ErrInvalid, err)
	}
	return netip.AddrPortFrom(a, port), nil
}

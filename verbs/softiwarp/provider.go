package softiwarp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// ProviderName is the name under which the provider is configured.
const ProviderName = "softiwarp"

// Provider makes soft-iWARP connections. Its methods are safe for concurrent use.
type Provider struct {
	config  Config
	dev     *device
	lingers lingers
	users   driver.Users // listeners and identifiers
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a provider with one device. It returns an error if config is invalid.
func New(config Config) (*Provider, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Provider{config: config}
	p.lingers.init(&config)
	p.dev = newDevice(p)
	return p, nil
}

// Descriptors is the number of file descriptors of a connection: its socket.
const Descriptors = 1

// Name returns ProviderName.
func (p *Provider) Name() string { return ProviderName }

// Descriptors returns Descriptors.
func (p *Provider) Descriptors() int { return Descriptors }

// Device returns the provider's only device.
func (p *Provider) Device() verbs.Device { return p.dev }

// Close frees the device and waits until the sockets of ended connections are closed.
func (p *Provider) Close() error {
	if first, err := p.users.Close("softiwarp: provider", p.dev.Close); !first {
		return err
	}
	p.dev.watch.Close()
	p.lingers.close()
	p.dev.buffers.close()
	return nil
}

// Listen listens on a TCP address.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	l, err := tcpaddr.Listen(ctx, address)
	if err != nil {
		p.users.Unuse()
		return nil, fmt.Errorf("softiwarp: %w", err)
	}
	return newListener(p, l.(*net.TCPListener)), nil
}

// Resolve looks up the host of address. It uses the first IPv4 address, or the first
// address if there is no IPv4 address.
func (p *Provider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	remote, err := driver.LookUp(ctx, address)
	if err == nil && remote.Port() == 0 {
		err = driver.Invalid("port 0")
	}
	if err != nil {
		return nil, fmt.Errorf("softiwarp: %w", err)
	}
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	return newID(p, netip.AddrPort{}, remote), nil
}

package softiwarp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// ProviderName is the name under which the provider is configured.
const ProviderName = "softiwarp"

// Provider makes soft-iWARP connections. All methods may be called from any
// goroutine.
type Provider struct {
	config  Config
	dev     *device
	lingers lingers
	users   driver.Users // listeners and identifiers
}

var _ rdmacm.Provider = (*Provider)(nil)

// New makes a provider with one device. The error is about config.
func New(config Config) (*Provider, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Provider{config: config, lingers: lingers{most: config.maxLingers}}
	p.dev = newDevice(p)
	return p, nil
}

// Name is ProviderName.
func (p *Provider) Name() string { return ProviderName }

// Device is the provider's one device.
func (p *Provider) Device() verbs.Device { return p.dev }

// Close frees the device, and waits until the sockets of ended connections
// are closed.
func (p *Provider) Close() error {
	if first, err := p.users.Close("softiwarp: provider", p.dev.Close); !first {
		return err
	}
	p.lingers.close()
	p.dev.buffers.close()
	return nil
}

// Listen binds to a TCP address.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	if err := p.users.Use(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		p.users.Unuse()
		return nil, fmt.Errorf("softiwarp: %w", err)
	}
	return newListener(p, l.(*net.TCPListener)), nil
}

// Resolve looks the host up. It takes the first IPv4 address, or the first address if
// there is no IPv4 address.
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

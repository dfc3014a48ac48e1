package softiwarp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/rdmad/rdmad/verbs"
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

	mu     sync.Mutex
	users  int // listeners and identifiers
	closed bool
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

// use counts one more listener or identifier.
func (p *Provider) use() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return verbs.ErrClosed
	}
	p.users++
	return nil
}

func (p *Provider) unuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
}

// Close frees the device, and waits until the sockets of ended connections
// are closed.
func (p *Provider) Close() error {
	if err := p.close(); err != nil {
		return err
	}
	p.lingers.close()
	p.dev.buffers.close()
	return nil
}

func (p *Provider) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if p.users > 0 {
		return fmt.Errorf("softiwarp: %d listeners and connections: %w", p.users, verbs.ErrBusy)
	}
	if err := p.dev.Close(); err != nil {
		return fmt.Errorf("softiwarp: %w", err)
	}
	p.closed = true
	return nil
}

// Listen binds to a TCP address.
func (p *Provider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	if err := p.use(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		p.unuse()
		return nil, fmt.Errorf("softiwarp: %w", err)
	}
	return newListener(p, l.(*net.TCPListener)), nil
}

// Resolve looks the host up. Its first IPv4 address counts, or else its first.
func (p *Provider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	remote, err := resolve(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("softiwarp: %w", err)
	}
	if err := p.use(); err != nil {
		return nil, err
	}
	return newID(p, remote), nil
}

func resolve(ctx context.Context, address string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", verbs.ErrInvalid, err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return netip.AddrPort{}, fmt.Errorf("port %q: %w", service, verbs.ErrInvalid)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	switch {
	case ctx.Err() != nil:
		return netip.AddrPort{}, ctx.Err()
	case err != nil:
		return netip.AddrPort{}, fmt.Errorf("%w: %w", rdmacm.ErrUnreachable, err)
	}
	return netip.AddrPortFrom(preferred(addrs), uint16(port)), nil
}

func preferred(addrs []netip.Addr) netip.Addr {
	for _, a := range addrs {
		if a = a.Unmap(); a.Is4() {
			return a
		}
	}
	return addrs[0]
}

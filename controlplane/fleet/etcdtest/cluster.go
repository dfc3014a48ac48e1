package etcdtest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/rdmad/rdmad/interop/child"
)

// Options describe the cluster to run.
type Options struct {
	Members int
	TLS     bool // for clients and between members; a client's user is the name in its certificate
	Flags   []string
	// Via returns the address of the proxy through which a member connects to the others; nil
	// for none. It needs TLS.
	Via func(member int) string
}

// Cluster is a cluster of etcd processes. Its client is root's with TLS.
type Cluster struct {
	Members []*Member
	CA      *CA // nil without TLS
	client  *clientv3.Client
	ports   []io.Closer // kept for the members
}

// domain is that of members which connect through proxies. Go's HTTP client uses no proxy for
// addresses of this machine.
const domain = ".etcd.test"

// Launch runs a cluster over a directory, and waits until it answers.
func Launch(ctx context.Context, dir string, o Options) (*Cluster, error) {
	c := &Cluster{}
	if o.TLS {
		var err error
		if c.CA, err = NewCA(dir); err != nil {
			return nil, err
		}
	}
	if err := c.lay(dir, o); err != nil {
		c.Close()
		return nil, err
	}
	for _, m := range c.Members {
		if err := m.Start(); err != nil {
			c.Close()
			return nil, err
		}
	}
	var err error
	if c.client, err = c.NewClient("root"); err == nil {
		err = c.Wait(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// lay chooses names, ports and arguments of the members.
func (c *Cluster) lay(dir string, o Options) error {
	ports, err := c.keepPorts(2 * o.Members)
	if err != nil {
		return err
	}
	scheme, security := "http://", []string(nil)
	if o.TLS {
		scheme = "https://"
		if security, err = c.CA.flags(); err != nil {
			return err
		}
	}
	advertised, initial := make([]string, o.Members), make([]string, o.Members)
	for i := range o.Members {
		m := &Member{Name: fmt.Sprintf("m%d", i+1), Endpoint: scheme + ports[2*i], Peer: ports[2*i+1]}
		advertised[i] = scheme + m.Peer
		if o.Via != nil {
			_, port, _ := net.SplitHostPort(m.Peer)
			advertised[i] = scheme + m.Name + domain + ":" + port
			m.env = []string{"HTTPS_PROXY=http://" + o.Via(i), "NO_PROXY="}
		}
		initial[i] = m.Name + "=" + advertised[i]
		c.Members = append(c.Members, m)
	}
	for i, m := range c.Members {
		m.args = append([]string{
			"--name", m.Name, "--data-dir", filepath.Join(dir, m.Name), "--listen-client-urls", m.Endpoint, "--advertise-client-urls", m.Endpoint,
			"--listen-peer-urls", scheme + m.Peer, "--initial-advertise-peer-urls", advertised[i], "--initial-cluster", strings.Join(initial, ","),
			"--unsafe-no-fsync", "--log-level", "warn",
		}, append(security, o.Flags...)...)
	}
	return nil
}

// keepPorts chooses ports that stay the members' while they are killed and started again.
func (c *Cluster) keepPorts(n int) (addresses []string, err error) {
	for range n {
		address, kept, err := child.KeepPort()
		if err != nil {
			return nil, err
		}
		c.ports = append(c.ports, kept)
		addresses = append(addresses, address)
	}
	return addresses, nil
}

// Endpoints returns the addresses of all members.
func (c *Cluster) Endpoints() (all []string) {
	for _, m := range c.Members {
		all = append(all, m.Endpoint)
	}
	return all
}

// Security returns the TLS configuration of a user, or nil without TLS.
func (c *Cluster) Security(user string) (*tls.Config, error) {
	if c.CA == nil {
		return nil, nil
	}
	return c.CA.Client(user)
}

// NewClient makes a user's client of the cluster.
func (c *Cluster) NewClient(user string) (*clientv3.Client, error) {
	secure, err := c.Security(user)
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: secure, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
}

// Client is a client of the cluster.
func (c *Cluster) Client() *clientv3.Client { return c.client }

// Wait waits until the cluster answers.
func (c *Cluster) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := c.client.Get(ctx, "health")
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("etcd does not answer: %w\n%s", err, c.Members[0].Output())
		}
	}
}

// Close ends all members.
func (c *Cluster) Close() {
	if c.client != nil {
		_ = c.client.Close()
	}
	for _, m := range c.Members {
		m.Kill()
	}
	for _, p := range c.ports {
		_ = p.Close()
	}
}

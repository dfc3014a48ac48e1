package config

import (
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
)

// Control is the gRPC control plane.
type Control struct {
	// Listen is host:port, or unix:///path.
	Listen string `mapstructure:"listen"`
	TLS    *TLS   `mapstructure:"tls"`
	// Group is one whose members are administrators on a Unix socket.
	Group string `mapstructure:"group"`
	// Roles give roles to certificates, users and groups; DefaultRole is that
	// of everybody else.
	Roles       []Role `mapstructure:"roles"`
	DefaultRole string `mapstructure:"default_role"`
	// Insecure lets everybody who reaches Listen be anonymous, without TLS
	// and beyond the loopback.
	Insecure bool  `mapstructure:"insecure"`
	Rate     *Rate `mapstructure:"rate"`
}

// TLS names the files of a mutual-TLS control plane.
type TLS struct {
	Cert     string `mapstructure:"cert"`
	Key      string `mapstructure:"key"`
	ClientCA string `mapstructure:"client_ca"`
}

// Role is a role and who has it.
type Role struct {
	Role         string   `mapstructure:"role"`
	Certificates []string `mapstructure:"certificates"`
	UIDs         []int64  `mapstructure:"uids"`
	Groups       []string `mapstructure:"groups"`
}

// Rate bounds each client's requests.
type Rate struct {
	RequestsPerSecond int64 `mapstructure:"requests_per_second"`
	Burst             int64 `mapstructure:"burst"`
}

// maxRate of both parts of a rate.
const maxRate = 1_000_000

func (c *Config) validateControl(d *document, _ Options) error {
	if err := c.Control.validateListen(d); err != nil {
		return err
	}
	if t := c.Control.TLS; t == nil && d.given("control.tls") || t != nil && (t.Cert == "" || t.Key == "" || t.ClientCA == "") {
		return d.fail("control.tls", "needs all of cert, key and client_ca")
	}
	if r := c.Control.DefaultRole; r != "" {
		if err := role(d, "control.default_role", r); err != nil {
			return err
		}
	}
	for i := range c.Control.Roles {
		if err := c.Control.Roles[i].validate(d, "control.roles["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return c.Control.Rate.validate(d)
}

// validateListen is closed unless told open: without TLS only the loopback,
// and Unix sockets, where the kernel says who comes, are taken.
func (c *Control) validateListen(d *document) error {
	const key = "control.listen"
	v := c.Listen
	if rest, ok := strings.CutPrefix(v, "unix:"); ok {
		u, err := url.Parse(v)
		switch {
		case err != nil || !strings.HasPrefix(rest, "///") || u.Host != "" || u.Path == "/":
			return d.fail(key, "%q is not unix:///absolute/path", v)
		case c.TLS != nil:
			return d.fail("control.tls", "%s is a Unix socket, which has no TLS", v)
		case c.Insecure:
			return d.fail("control.insecure", "%s is a Unix socket, where the kernel says who comes; leave it off", v)
		}
		return nil
	}
	if err := address(d, key, v); err != nil {
		return err
	}
	if c.TLS != nil && c.Insecure {
		return d.fail("control.insecure", "contradicts control.tls")
	}
	if c.Group != "" {
		return d.fail("control.group", "members are known on a Unix socket only, and control.listen is %s", v)
	}
	host, _, err := net.SplitHostPort(v)
	if err != nil {
		return d.fail(key, "%v", err)
	}
	ip, err := netip.ParseAddr(host)
	if c.TLS == nil && !c.Insecure && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return d.fail(key, "%s is not on the loopback; without control.tls the control plane listens there or on unix:///path only", v)
	}
	return nil
}

func role(d *document, key, v string) error {
	if _, ok := auth.ParseRole(v); !ok {
		return d.fail(key, "%q is none of %s", v, strings.Join(auth.Roles(), ", "))
	}
	return nil
}

func (r *Role) validate(d *document, key string) error {
	if r.Role == "" {
		return d.fail(key+".role", "is missing")
	}
	if err := role(d, key+".role", r.Role); err != nil {
		return err
	}
	if len(r.Certificates)+len(r.UIDs)+len(r.Groups) == 0 {
		return d.fail(key, "names nobody; give it certificates, uids or groups")
	}
	for i, uid := range r.UIDs {
		if uid < 0 || uid > math.MaxUint32-1 {
			return d.fail(key+".uids["+strconv.Itoa(i)+"]", "%d is not a user's number", uid)
		}
	}
	if slices.Contains(r.Certificates, "") {
		return d.fail(key+".certificates", "one is empty")
	}
	if slices.Contains(r.Groups, "") {
		return d.fail(key+".groups", "one is empty")
	}
	return nil
}

func (r *Rate) validate(d *document) error {
	if r == nil {
		return nil
	}
	for _, part := range []struct {
		key   string
		value int64
	}{{"requests_per_second", r.RequestsPerSecond}, {"burst", r.Burst}} {
		key := "control.rate." + part.key
		if !d.given(key) {
			return d.fail("control.rate", "needs both requests_per_second and burst")
		}
		if part.value < 1 || part.value > maxRate {
			return d.fail(key, "%d is out of range 1..%d", part.value, maxRate)
		}
	}
	return nil
}

// Access is the configuration of access for the control plane; c was checked.
func (c *Control) Access() controlplane.Access {
	a := controlplane.Access{Insecure: c.Insecure, Rules: auth.Rules{Group: c.Group}}
	if c.TLS != nil {
		a.TLS = &auth.Files{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.ClientCA}
	}
	if r, ok := auth.ParseRole(c.DefaultRole); ok {
		a.Rules.Default = &r
	}
	for _, one := range c.Roles {
		rule := auth.Rule{Certificates: one.Certificates, Groups: one.Groups}
		rule.Role, _ = auth.ParseRole(one.Role)
		for _, uid := range one.UIDs {
			rule.UIDs = append(rule.UIDs, uint32(uid))
		}
		a.Rules.Rules = append(a.Rules.Rules, rule)
	}
	if r := c.Rate; r != nil {
		a.Rate = auth.Rate{PerSecond: float64(r.RequestsPerSecond), Burst: int(r.Burst)}
	}
	return a
}

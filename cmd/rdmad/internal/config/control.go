package config

import (
	"iter"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Control is the gRPC control plane.
type Control struct {
	Listen string `mapstructure:"listen" default:"127.0.0.1:20050" doc:"unix:///PATH, or HOST:PORT: a loopback address, or any address with tls"`
	TLS    *TLS   `mapstructure:"tls"`
	Group  string `mapstructure:"group" doc:"group whose members are administrators on the Unix socket"`
	Roles  []Role `mapstructure:"roles" doc:"list of roles, with their certificates, users and groups"`
	// DefaultRole is the role of clients that are not in Roles.
	DefaultRole string `mapstructure:"default_role" doc:"role of clients that have no other role"`
	Insecure    bool   `mapstructure:"insecure" doc:"accept every client that reaches control.listen, anonymous and without TLS"`
	Rate        *Rate  `mapstructure:"rate"`
}

// TLS names the files of a mutual-TLS control plane.
type TLS struct {
	Cert     string `mapstructure:"cert" doc:"file with the server's certificate"`
	Key      string `mapstructure:"key" doc:"file with the key of the server's certificate"`
	ClientCA string `mapstructure:"client_ca" doc:"file with the CA certificates that sign the clients' certificates"`
}

// Role assigns a role.
type Role struct {
	Role         string   `mapstructure:"role" doc:"role to give: none, viewer, operator or admin"`
	Certificates []string `mapstructure:"certificates" doc:"names in the certificates of clients that have the role"`
	UIDs         []int64  `mapstructure:"uids" doc:"user IDs that have the role"`
	Groups       []string `mapstructure:"groups" doc:"groups whose members have the role"`
}

// Rate bounds each client's requests.
type Rate struct {
	RequestsPerSecond int64 `mapstructure:"requests_per_second" range:"1..1000000" doc:"maximum requests per second of one client"`
	Burst             int64 `mapstructure:"burst" range:"1..1000000" doc:"maximum requests that one client may make at once"`
}

func (c *Config) validateControl(d document) {
	c.Control.validateListen(d)
	if t := c.Control.TLS; t == nil && d.Given("control.tls") || t != nil && (t.Cert == "" || t.Key == "" || t.ClientCA == "") {
		d.Fail("control.tls", "needs all of cert, key and client_ca")
	}
	if r := c.Control.DefaultRole; r != "" {
		role(d, "control.default_role", r)
	}
	for i := range c.Control.Roles {
		c.Control.Roles[i].validate(d, index("control.roles", i))
	}
	if r := c.Control.Rate; r != nil && (r.RequestsPerSecond == 0 || r.Burst == 0) {
		d.Fail("control.rate", "needs both requests_per_second and burst")
	}
}

// maxSocket is the longest path of a Unix socket, in bytes (unix(7)).
const maxSocket = 107

// validateListen accepts only safe addresses unless insecure is set: without TLS only the
// loopback, and Unix sockets, on which the kernel identifies the client.
func (c *Control) validateListen(d document) {
	const key = "control.listen"
	v := c.Listen
	if rest, ok := strings.CutPrefix(v, "unix:"); ok {
		switch {
		case !strings.HasPrefix(rest, "///") || rest == "///":
			d.Fail(key, "%q is not unix:///absolute/path", v)
		case len(rest)-len("//") > maxSocket:
			d.Fail(key, "the path of a socket has at most %d bytes, this one has %d", maxSocket, len(rest)-len("//"))
		case c.TLS != nil:
			d.Fail("control.tls", "%s is a Unix socket, which has no TLS", v)
		case c.Insecure:
			d.Fail("control.insecure", "%s is a Unix socket, where the kernel says who comes; leave it off", v)
		}
		return
	}
	if text := spec.AddressProblem(v); text != "" {
		d.Fail(key, "%s", text)
		return
	}
	if c.TLS != nil && c.Insecure {
		d.Fail("control.insecure", "contradicts control.tls")
	}
	if c.Group != "" {
		d.Fail("control.group", "members are known on a Unix socket only, and control.listen is %s", v)
	}
	if c.TLS == nil && !c.Insecure && !onLoopback(v) {
		d.Fail(key, "%s is not on the loopback; without control.tls the control plane listens there or on unix:///path only", v)
	}
}

// onLoopback reports whether HOST:PORT is an address of the loopback.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, bad := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || bad == nil && ip.IsLoopback())
}

func role(d document, key, v string) {
	if _, ok := auth.ParseRole(v); !ok {
		d.Fail(key, "%q is not one of %s", v, strings.Join(auth.Roles(), ", "))
	}
}

func (r *Role) validate(d document, key string) {
	if r.Role == "" {
		d.Fail(key+".role", "is missing")
	} else {
		role(d, key+".role", r.Role)
	}
	if len(r.Certificates)+len(r.UIDs)+len(r.Groups) == 0 {
		d.Fail(key, "names nobody; give it certificates, uids or groups")
	}
	for i, uid := range r.UIDs {
		if uid < 0 || uid > math.MaxUint32-1 {
			d.Fail(index(key+".uids", i), "%d is not a user's number", uid)
		}
	}
	if slices.Contains(r.Certificates, "") {
		d.Fail(key+".certificates", "one is empty")
	}
	if slices.Contains(r.Groups, "") {
		d.Fail(key+".groups", "one is empty")
	}
}

// Certificates yields the files of the control plane's and the console's TLS, by section.
func (c *Config) Certificates() iter.Seq2[string, *auth.Files] {
	return func(yield func(string, *auth.Files) bool) {
		if files := c.Control.Access().TLS; files != nil && !yield("control", files) {
			return
		}
		if files := c.Console.Address().TLS; files != nil {
			yield("console", files)
		}
	}
}

// Access converts the configuration for the control plane. c must be checked.
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

package config

import (
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// address checks host:port without looking anything up; port 0 lets the
// system choose.
func address(d *document, key, v string) error {
	if text := manager.AddressProblem(v); text != "" {
		return d.fail(key, "%s", text)
	}
	return nil
}

// validateClashes finds two things that want one address. softiwarp listens
// on TCP ports too.
func (c *Config) validateClashes(d *document, _ Options) error {
	users := map[string]string{}
	claim := func(key, addr string) error {
		if addr == "" || strings.HasSuffix(addr, ":0") {
			return nil
		}
		if other, ok := users[addr]; ok {
			return d.fail(key, "%s is the address of %s already", addr, other)
		}
		users[addr] = key
		return nil
	}
	claims := [][2]string{{"control.listen", c.Control.Listen}, {"metrics.listen", c.Metrics.Listen}}
	for i, s := range c.Services {
		if s.NFS != nil {
			claims = append(claims, [2]string{"services[" + strconv.Itoa(i) + "].nfs.tcp_listen", s.NFS.TCPListen})
		}
	}
	for i, l := range c.Listeners {
		claims = append(claims, [2]string{"listeners[" + strconv.Itoa(i) + "].address", l.Address})
	}
	for i, n := range c.Connectors {
		claims = append(claims, [2]string{"connectors[" + strconv.Itoa(i) + "].listen", n.Listen})
	}
	for _, cl := range claims {
		if err := claim(cl[0], cl[1]); err != nil {
			return err
		}
	}
	return nil
}

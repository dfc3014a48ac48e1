package interop

import (
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// versions are the minor versions of NFSv4.
var versions = []string{"4.0", "4.1", "4.2"}

// exported is a directory of a guest that an NFS server exports, by version 4 as
// its root. Clients reach it through ports of the host, which they have as
// 10.0.2.2: those of an rdmad before the server, or one that leads straight to it.
type exported struct {
	g       *guest.Guest // where the directory is
	dir     string
	shared  string // its path of what the client's guest has as /host
	version string
	rdma    string // port
	tcp     string // port
	mountd  string // port of MOUNT, which leads straight to the server
	r       *rdmad // between clients and the server, nil when there is none
}

func (e *exported) mountArgs(via transport) (source, options string) {
	port := e.tcp
	if via == overRDMA {
		port = e.rdma
	}
	if e.version == "3" { // as docs/gateway.md says
		return "10.0.2.2:" + e.dir, fmt.Sprintf("vers=3,proto=%s,port=%s,mounthost=10.0.2.2,mountport=%s,nolock", via, port, e.mountd)
	}
	// An emulated server takes longer to list a large directory than a client
	// by default believes what it was told of the first file.
	return "10.0.2.2:/", fmt.Sprintf("vers=%s,proto=%s,port=%s,sec=sys,acregmin=60", e.version, via, port)
}

func (e *exported) shell(t testing.TB, script string) string {
	t.Helper()
	return e.g.MustRun(t, serverTime, "set -e; cd "+e.dir+"\n"+script)
}

func (e *exported) share() string { return e.shared }

// at returns a copy of e with another version.
func (e *exported) at(version string) *exported {
	other := *e
	other.version = version
	return &other
}

// forwarding is rdmad's configuration with a service that sends calls on to an
// address, two listeners for it, and callbacks.
func forwarding(address string) func(*rdmad) string {
	return func(r *rdmad) string {
		return fmt.Sprintf(`control: {listen: %q}
metrics: {listen: ""}
state: {path: ./state}
listeners:
- {name: idle, provider: softiwarp, address: "127.0.0.1:0", service: upstream}
- {name: nfs, provider: softiwarp, address: %q, service: upstream}
services: [{name: upstream, forward: {address: %q}}]
settings: {extensions: {backchannel: true}}
`, r.control, r.rdma, address)
	}
}

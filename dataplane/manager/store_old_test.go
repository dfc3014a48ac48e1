package manager

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestOldFiles: what an rdmad before wrote is read, with every key that it had.
func TestOldFiles(t *testing.T) {
	dir := t.TempDir()
	listeners, connectors := filepath.Join(dir, "listeners.json"), filepath.Join(dir, "connectors.json")
	for path, text := range map[string]string{
		listeners: `{"format": 1, "services": [
  {"name": "a", "nfs": {"path": "/srv", "read_only": true, "squash": "all", "async_metadata": true, "tcp_listen": "127.0.0.1:1"}},
  {"name": "b", "echo": {}},
  {"name": "c", "forward": {"address": "h:2", "dial_timeout_ns": 1000000000, "call_timeout_ns": 60000000000, "callback_timeout_ns": 500000000, "reserved_port": true, "max_record": 65536}}],
 "listeners": [{"name": "l", "provider": "softiwarp", "address": "127.0.0.1:3", "service": "a", "rpcbind": true,
  "limits": {"connections": 1, "connections_per_peer": 2, "handshakes": 3, "idle": 3600000000000}, "allow": ["192.0.2.0/24"], "deny": ["192.0.2.7/32"]}]}`,
		connectors: `{"format": 1, "connectors": [{"name": "k", "listen": "127.0.0.1:4", "provider": "softiwarp", "target": "h:5",
  "dial_timeout_ns": 2000000000, "callback_timeout_ns": 3000000000, "max_calls": 6, "max_reply": 4096, "memory": 33554432,
  "limits": {"connections": 7, "idle": 60000000000}, "access": {"allow": ["192.0.2.0/24"], "deny": ["192.0.2.7/32"]}}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access := dataplane.Access{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}}
	got, err := NewFile(listeners).Load()
	if err != nil {
		t.Fatal(err)
	}
	err = NewFile(listeners).TakeOver(connectors)
	if err == nil {
		got, err = NewFile(listeners).Load()
	}
	if err != nil {
		t.Fatal(err)
	}
	same(t, "loaded", got, spec.All{
		Services: []spec.Service{
			{Name: "a", NFS: &spec.NFS{Export: spec.Export{Path: "/srv", ReadOnly: true, Squash: "all"}, AsyncMetadata: true, TCPListen: "127.0.0.1:1"}},
			{Name: "b", Echo: &spec.Echo{}},
			{Name: "c", Forward: &spec.Forward{
				Address: "h:2", DialTimeout: time.Second, CallTimeout: time.Minute, CallbackTimeout: time.Second / 2, ReservedPort: true, MaxRecord: 64 << 10,
			}},
		},
		Listeners: []spec.Listener{{
			Name: "l", Provider: "softiwarp", Address: "127.0.0.1:3", Service: "a", RPCBind: true,
			Limits: dataplane.Limits{Connections: 1, ConnectionsPerPeer: 2, Handshakes: 3, Idle: time.Hour}, Access: access,
		}},
		Connectors: []spec.Connector{{
			Name: "k", Listen: "127.0.0.1:4", Provider: "softiwarp", Target: "h:5", DialTimeout: 2 * time.Second, CallbackTimeout: 3 * time.Second,
			MaxCalls: 6, MaxReply: 4 << 10, Access: access,
			Limits: spec.ConnectorLimits{Memory: 32 << 20, Limits: dataplane.Limits{Connections: 7, Idle: time.Minute}},
		}},
	})
}

package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/configfile"
)

const echoService = "services: [{name: e, echo: {}}]\n"

func echoListener(fields string) string {
	return echoService + "listeners: [{" + fields + "}]\n"
}

func outConnector(fields string) string {
	return "connectors: [{name: out, provider: softiwarp, " + fields + "}]\n"
}

func settings(text string) string { return "settings:\n  " + text + "\n" }

var badInput = []struct{ name, text, want string }{
	{"syntax", "control: {listen", "f.yaml:1: not YAML: did not find expected ',' or '}'"},
	{"tab", "control:\n\tlisten: x\n", "f.yaml:2: not YAML: found character that cannot start any token"},
	{"not a mapping", "- a\n- b\n", "f.yaml:1: must be a mapping of keys to values"},
	{"text alone", "hello", "f.yaml:1: must be a mapping of keys to values"},
	{"two documents", "control: {}\n---\nmetrics: {}\n", "f.yaml:2: a second YAML document; one file holds one configuration"},
	{"unknown at top", "state: {}\nlistener: []\n",
		"f.yaml:2: listener: unknown key; known here: connectors, console, control, fleet, limits, listeners, metrics, providers, scopes, services, settings, slow_call, state, tracing"},
	{"case matters", "Listeners: []\n",
		"f.yaml:1: Listeners: unknown key; known here: connectors, console, control, fleet, limits, listeners, metrics, providers, scopes, services, settings, slow_call, state, tracing"},
	{"unknown with a line break", "services: [{name: a, echo: {\"x\\ny\": 1}}]",
		`f.yaml:1: services[0].echo.x\ny: unknown key; there are none here`},
	{"a value with a line break", "control: {listen: \"0.0.\\n0.0:20050\"}",
		`f.yaml:1: control.listen: 0.0.\n0.0:20050 is not on the loopback; without control.tls the control plane listens there or on unix:///path only`},
	{"unknown without a value", "bogus:\n",
		"f.yaml:1: bogus: unknown key; known here: connectors, console, control, fleet, limits, listeners, metrics, providers, scopes, services, settings, slow_call, state, tracing"},
	{"unknown in a list", "services:\n  - {name: e, echo: {}}\n  - name: x\n    nfs:\n      paht: /srv\n",
		"f.yaml:5: services[1].nfs.paht: unknown key; known here: anongid, anonuid, async_metadata, clients, exports, path, read_only, require_mountpoint, squash, tcp_listen"},
	{"unknown where there are none", "services: [{name: e, echo: {x: 1}}]",
		"f.yaml:1: services[0].echo.x: unknown key; there are none here"},
	{"twice", "metrics: {listen: \"a:1\"}\nmetrics: {listen: \"a:2\"}\n", "f.yaml:2: metrics: already given in line 1"},
	{"alias", "state: &a {path: x}\nmetrics: *a\n", "f.yaml:2: metrics: an alias; write the value out"},
	{"number for a text", "control: {listen: 20050}", `f.yaml:1: control.listen: must be a text, not "20050"`},
	{"size for a number", settings(`credits: {max: 4KiB}`), `f.yaml:2: settings.credits.max: must be a whole number of calls, not "4KiB"`},
	{"unit", settings("inline: {send_max: 4k}"), `f.yaml:2: settings.inline.send_max: must be a whole number of bytes, not "4k"`},
	{"fraction", settings("inline: {send_max: 4096.5}"), `f.yaml:2: settings.inline.send_max: must be a whole number of bytes, not "4096.5"`},
	{"past 64 bits", settings("inline: {send_max: 99999999999999999999}"),
		`f.yaml:2: settings.inline.send_max: must be a whole number of bytes, not "99999999999999999999"`},
	{"number for a switch", settings("remote_invalidation: {use: 1}"), `f.yaml:2: settings.remote_invalidation.use: must be on or off, not "1"`},
	{"mapping for a list", "listeners: {name: x}", "f.yaml:1: listeners: must be a list"},
	{"list for a mapping", "control: []", "f.yaml:1: control: must be a mapping of keys to values"},
	{"mapping for a text", "state: {path: {a: b}}", "f.yaml:1: state.path: must be a text"},

	{"long allow", echoListener("name: a, provider: softiwarp, address: \"a:1\", service: e,\nallow: [" + strings.Repeat("192.0.2.1,", 1024) + "192.0.2.2]"),
		"f.yaml:3: listeners[0].allow: 1025 prefixes, at most 1024 are taken"},
	{"long deny", outConnector("listen: \"a:1\", target: \"a:2\",\ndeny: [" + strings.Repeat("192.0.2.1,", 1024) + "192.0.2.2]"),
		"f.yaml:2: connectors[0].deny: 1025 prefixes, at most 1024 are taken"},

	{"control port", "control: {listen: \"127.0.0.1:70000\"}", `f.yaml:1: control.listen: port "70000" is not a number from 0 to 65535`},
	{"control open", "control: {listen: \"0.0.0.0:20050\"}",
		"f.yaml:1: control.listen: 0.0.0.0:20050 is not on the loopback; without control.tls the control plane listens there or on unix:///path only"},
	{"control everywhere", "control: {listen: \":20050\"}",
		"f.yaml:1: control.listen: :20050 is not on the loopback; without control.tls the control plane listens there or on unix:///path only"},
	{"control socket", "control: {listen: \"unix://run/x\"}", `f.yaml:1: control.listen: "unix://run/x" is not unix:///absolute/path`},
	{"long control socket", "control: {listen: \"unix:///" + strings.Repeat("x", 107) + "\"}", "f.yaml:1: control.listen: the path of a socket has at most 107 bytes, this one has 108"},
	{"no port", "metrics: {listen: localhost}", `f.yaml:1: metrics.listen: "localhost" is not HOST:PORT`},
	{"port by name", "metrics: {listen: \"localhost:http\"}", `f.yaml:1: metrics.listen: port "http" is not a number from 0 to 65535`},
	{"space in a host", "metrics: {listen: \"local host:1\"}", `f.yaml:1: metrics.listen: "local host:1" is not HOST:PORT`},
	{"no state", "state: {path: \"\"}", "f.yaml:1: state.path: must not be empty"},
	{"fleet without etcd", "fleet: {node: a}", "f.yaml:1: fleet.endpoints: is missing: give the addresses of etcd, such as https://192.0.2.1:2379"},
	{"fleet's address", "fleet: {endpoints: [\"etcd:2379\"]}", `f.yaml:1: fleet.endpoints[0]: "etcd:2379" is not https://HOST:PORT or http://HOST:PORT`},
	{"fleet's address without a port", "fleet: {endpoints: [\"https://etcd\"]}", `f.yaml:1: fleet.endpoints[0]: "https://etcd" is not https://HOST:PORT or http://HOST:PORT`},
	{"fleet without TLS", "fleet: {node: a, endpoints: [\"https://etcd:2379\"]}", "f.yaml:1: fleet.tls: is missing: https://etcd:2379 needs cert, key and ca"},
	{"fleet's half of TLS", "fleet: {node: a, endpoints: [\"https://etcd:2379\"], tls: {cert: a}}", "f.yaml:1: fleet.tls: needs all of cert, key and ca"},
	{"fleet with needless TLS", "fleet: {node: a, endpoints: [\"http://etcd:2379\"], tls: {cert: a, key: b, ca: c}}",
		"f.yaml:1: fleet.endpoints[0]: http://etcd:2379 has no TLS, and fleet.tls is given: write https://"},
	{"fleet's prefix", "fleet: {node: a, prefix: rdmad/, endpoints: [\"http://etcd:2379\"]}",
		`f.yaml:1: fleet.prefix: "rdmad/" must begin with '/', not end with it, and have at most 256 bytes`},
	{"fleet's node", "fleet: {node: a/b, endpoints: [\"http://etcd:2379\"]}",
		`f.yaml:1: fleet.node: "a/b" must be 1 to 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit`},
	{"fleet's node like a condition", "fleet: {node: controller, endpoints: [\"http://etcd:2379\"]}",
		`f.yaml:1: fleet.node: "controller" is the name of a condition of the fleet; give this rdmad another name`},
	{"fleet's labels", "fleet:\n  labels: {role: a b}", "f.yaml:2: fleet.labels: value of label role: \"a b\" must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit"},
	{"two labels as one", "fleet:\n  labels: {role: \"a,rack=b\"}", "f.yaml:2: fleet.labels: value of label role: \"a,rack=b\" must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit"},
	{"fleet's labels as a list", "fleet:\n  labels: [a]", "f.yaml:2: fleet.labels: must be a mapping of keys to values"},
	{"label of a list", "fleet:\n  labels: {role: [a]}", "f.yaml:2: fleet.labels.role: must be one value, not a list or a mapping"},
	{"retries", "providers:\n  rdmacore:\n    retry_count: 0\n", "f.yaml:3: providers.rdmacore.retry_count: 0 is out of range 1..7"},
	{"retries past 32 bits", "providers: {rdmacore: {rnr_retry_count: 4294967296}}", `f.yaml:1: providers.rdmacore.rnr_retry_count: 4294967296 is out of range 0..7`},
	{"RNR timer", "providers: {rdmacore: {rnr_timer: 1s}}", "f.yaml:1: providers.rdmacore.rnr_timer: 1s is out of range 10µs..655.36ms"},
	{"acknowledgement timeout", "providers: {rdmacore: {ack_timeout: 1us}}", "f.yaml:1: providers.rdmacore.ack_timeout: 1µs is out of range 4.096µs..1m0s"},
	{"busy poll", "providers: {rdmacore: {busy_poll: 20ms}}", "f.yaml:1: providers.rdmacore.busy_poll: 20ms is out of range 0s..10ms"},
	{"busy poll without a unit", "providers: {rdmacore: {busy_poll: \"20\"}}", `f.yaml:1: providers.rdmacore.busy_poll: "20" is not a time such as 10s`},
	{"keep-alive", "providers: {rdmacore: {keep_alive: 100ms}}", "f.yaml:1: providers.rdmacore.keep_alive: 100ms is out of range 1s..1h0m0s, or 0s"},
	{"provider without settings", "providers: {softiwarp: {}}", "f.yaml:1: providers.softiwarp: unknown key; known here: rdmacore"},
	{"half of TLS", "control:\n  tls: {cert: a}\n", "f.yaml:2: control.tls: needs all of cert, key and client_ca"},
	{"empty TLS", "control:\n  tls:\n", "f.yaml:2: control.tls: needs all of cert, key and client_ca"},
	{"TLS on a socket", "control:\n  listen: \"unix:///run/x\"\n  tls: {cert: a, key: b, client_ca: c}\n",
		"f.yaml:3: control.tls: unix:///run/x is a Unix socket, which has no TLS"},
	{"insecure socket", "control:\n  listen: \"unix:///run/x\"\n  insecure: on\n",
		"f.yaml:3: control.insecure: unix:///run/x is a Unix socket, where the kernel says who comes; leave it off"},
	{"console for everybody", "console: {listen: \"0.0.0.0:20052\"}\n",
		"f.yaml:1: console.listen: 0.0.0.0:20052 is not on the loopback; without console.tls the console listens there only"},
	{"console without a key", "console: {listen: \"0.0.0.0:20052\", tls: {cert: a}}\n", "f.yaml:1: console.tls: needs both cert and key"},
	{"console without an address", "console: {tls: {cert: a, key: b}}\n", "f.yaml:1: console.listen: is missing; console.tls is for it"},
	{"console on the control plane's address", "console: {listen: \"127.0.0.1:20050\"}\n", "f.yaml:1: console.listen: 127.0.0.1:20050 is the address of control.listen already"},
	{"insecure TLS", "control:\n  insecure: on\n  tls: {cert: a, key: b, client_ca: c}\n", "f.yaml:2: control.insecure: contradicts control.tls"},
	{"group on TCP", "control:\n  group: rdmad\n",
		"f.yaml:2: control.group: members are known on a Unix socket only, and control.listen is 127.0.0.1:20050"},
	{"default role", "control: {default_role: root}", `f.yaml:1: control.default_role: "root" is not one of none, viewer, operator, admin`},
	{"rule without a role", "control:\n  roles:\n  - uids: [1]\n", "f.yaml:3: control.roles[0].role: is missing"},
	{"rule's role", "control:\n  roles:\n  - role: boss\n    uids: [1]\n", `f.yaml:3: control.roles[0].role: "boss" is not one of none, viewer, operator, admin`},
	{"rule for nobody", "control:\n  roles:\n  - role: viewer\n",
		"f.yaml:3: control.roles[0]: names nobody; give it certificates, uids or groups"},
	{"rule's uid", "control: {roles: [{role: viewer, uids: [1, 4294967295]}]}",
		"f.yaml:1: control.roles[0].uids[1]: 4294967295 is not a user's number"},
	{"rule's user by name", "control: {roles: [{role: viewer, uids: [root]}]}",
		`f.yaml:1: control.roles[0].uids[0]: must be a whole number, not "root"`},
	{"rule's certificate", "control: {roles: [{role: viewer, certificates: [\"\"]}]}", "f.yaml:1: control.roles[0].certificates: one is empty"},
	{"rule's group", "control: {roles: [{role: viewer, groups: [\"\"]}]}", "f.yaml:1: control.roles[0].groups: one is empty"},
	{"half a rate", "control: {rate: {burst: 5}}", "f.yaml:1: control.rate: needs both requests_per_second and burst"},
	{"no rate", "control: {rate: {requests_per_second: 0, burst: 5}}", "f.yaml:1: control.rate.requests_per_second: 0 is out of range 1..1000000"},

	{"service without a name", "services:\n  - {echo: {}}\n", "f.yaml:2: services[0].name: is missing"},
	{"service's name", "services: [{name: a b, echo: {}}]",
		`f.yaml:1: services[0].name: "a b": letters, digits, '_', '.' and '-' make a name, 63 at most`},
	{"services of one name", "services:\n - {name: a, echo: {}}\n - {name: a, echo: {}}\n", `f.yaml:3: services[1].name: "a" is taken already`},
	{"service of no kind", "services: [{name: a}]", `f.yaml:1: services[0]: service "a" needs exactly one of nfs, echo, forward; it has 0`},
	{"service of two kinds", "services: [{name: a, echo: {}, nfs: {path: x}}]",
		`f.yaml:1: services[0]: service "a" needs exactly one of nfs, echo, forward; it has 2`},
	{"nfs without a path", "services:\n - name: a\n   nfs: {}\n", "f.yaml:3: services[0].nfs.path: is missing: which directory is served?"},
	{"nfs tcp port", "services: [{name: a, nfs: {path: x, tcp_listen: \"x:-1\"}}]",
		`f.yaml:1: services[0].nfs.tcp_listen: port "-1" is not a number from 0 to 65535`},
	{"nfs squash", "services: [{name: a, nfs: {path: x, squash: nobody}}]",
		`f.yaml:1: services[0].nfs.squash: "nobody" is not one of none, root_squash, all_squash, root, all`},
	{"rpcbind for a forward", "services: [{name: u, forward: {address: \"h:2049\"}}]\n" +
		"listeners: [{name: u, provider: softiwarp, address: \"h:1\", service: u, rpcbind: on}]\n",
		`f.yaml:2: listeners[0].rpcbind: service "u" forwards programs that rdmad does not know; leave it off`},
	{"forward's address", "services: [{name: a, forward: {}}]", `f.yaml:1: services[0].forward.address: "" is not HOST:PORT`},
	{"forward's time", `services: [{name: a, forward: {address: "h:1", dial_timeout: 5}}]`,
		`f.yaml:1: services[0].forward.dial_timeout: must be a time such as 10s, not "5"`},
	{"forward's time unread", `services: [{name: a, forward: {address: "h:1", dial_timeout: soon}}]`,
		`f.yaml:1: services[0].forward.dial_timeout: "soon" is not a time such as 10s`},
	{"forward's time 0", `services: [{name: a, forward: {address: "h:1", callback_timeout: 0s}}]`,
		`f.yaml:1: services[0].forward.callback_timeout: 0s is out of range 100ms..10m`},
	{"forward's time long", "services:\n - name: a\n   forward:\n    address: h:1\n    call_timeout: 2h\n",
		`f.yaml:5: services[0].forward.call_timeout: 2h is out of range 1s..1h`},
	{"forward's record", `services: [{name: a, forward: {address: "h:1", max_record: 100}}]`,
		`f.yaml:1: services[0].forward.max_record: 100 is out of range 64KiB..64MiB`},
	{"forward's record 0", `services: [{name: a, forward: {address: "h:1", max_record: 0}}]`,
		`f.yaml:1: services[0].forward.max_record: 0 is out of range 64KiB..64MiB`},
	{"forward's key", `services: [{name: a, forward: {address: "h:1", timeout: 1s}}]`,
		"f.yaml:1: services[0].forward.timeout: unknown key; known here: address, call_timeout, callback_timeout, dial_timeout, max_record, reserved_port"},

	{"listener's name", echoListener(`provider: softiwarp, address: "a:1", service: e`), "f.yaml:2: listeners[0].name: is missing"},
	{"listener's provider", echoListener(`name: l, provider: rdmacore, address: "a:1", service: e`),
		`f.yaml:2: listeners[0].provider: "rdmacore" is not in this build, which has: softiwarp`},
	{"no provider", echoListener(`name: l, address: "a:1", service: e`), "f.yaml:2: listeners[0].provider: is missing; this build has: softiwarp"},
	{"listener's address", echoListener(`name: l, provider: softiwarp, service: e`), `f.yaml:2: listeners[0].address: "" is not HOST:PORT`},
	{"listener's service", echoListener(`name: l, provider: softiwarp, address: "a:1", service: x`),
		`f.yaml:2: listeners[0].service: there is no service "x"`},
	{"limit of nothing", "limits: {connections: 0}", "f.yaml:1: limits.connections: 0 is out of range 1..65536"},
	{"limit negative", "limits:\n  handshakes: -1\n", "f.yaml:2: limits.handshakes: -1 is out of range 1..65536"},
	{"limit large", "limits: {connections_per_peer: 65537}", "f.yaml:1: limits.connections_per_peer: 65537 is out of range 1..65536"},
	{"limit unknown", "limits: {conns: 1}", "f.yaml:1: limits.conns: unknown key; known here: connections, connections_per_peer, control, handshakes, idle, memory, metrics, tcp_connections, tcp_connections_per_peer, tcp_idle"},
	{"TCP limit", "limits: {tcp_connections: 0}", "f.yaml:1: limits.tcp_connections: 0 is out of range 1..65536"},
	{"TCP limit large", "limits: {tcp_connections_per_peer: 65537}", "f.yaml:1: limits.tcp_connections_per_peer: 65537 is out of range 1..65536"},
	{"TCP idle", "limits: {tcp_idle: soon}", `f.yaml:1: limits.tcp_idle: "soon" is not a time such as 10s`},
	{"TCP idle short", "limits: {tcp_idle: 1s}", `f.yaml:1: limits.tcp_idle: 1s is out of range 10s..24h`},
	{"idle", "limits: {idle: soon}", `f.yaml:1: limits.idle: "soon" is not a time such as 10s`},
	{"idle without a unit", `limits: {idle: "600"}`, `f.yaml:1: limits.idle: "600" is not a time such as 10s`},
	{"idle in fractions", "limits: {idle: 1500ms}", `f.yaml:1: limits.idle: 1.5s is not a time in seconds, minutes or hours such as 10m`},
	{"idle of nothing", "limits: {idle: 0s}", `f.yaml:1: limits.idle: 0s is out of range 1s..720h`},
	{"idle long", "limits: {idle: 721h}", `f.yaml:1: limits.idle: 721h is out of range 1s..720h`},
	{"idle of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {idle: -1s}"),
		`f.yaml:3: listeners[0].limits.idle: -1s is out of range 1s..720h`},
	{"control connections", "limits: {control: {connections: 0}}", "f.yaml:1: limits.control.connections: 0 is out of range 1..65536"},
	{"control connections of a peer", "limits:\n  control: {connections_per_peer: 65537}", "f.yaml:2: limits.control.connections_per_peer: 65537 is out of range 1..65536"},
	{"control reserved", "limits: {control: {reserved: -1}}", "f.yaml:1: limits.control.reserved: -1 is out of range 1..65536"},
	{"control all reserved", "limits: {control: {connections: 8, reserved: 8}}", "f.yaml:1: limits.control.reserved: 8 of 8 connections leaves none for other clients"},
	{"control reserved of the default", "limits: {control: {reserved: 300}}", "f.yaml:1: limits.control.reserved: 300 of 256 connections leaves none for other clients"},
	{"control idle", "limits: {control: {idle: often}}", `f.yaml:1: limits.control.idle: "often" is not a time such as 10s`},
	{"control idle long", "limits: {control: {idle: 1000h}}", `f.yaml:1: limits.control.idle: 1000h is out of range 1s..720h`},
	{"control unknown", "limits: {control: {handshakes: 3}}",
		"f.yaml:1: limits.control.handshakes: unknown key; known here: connections, connections_per_peer, idle, reserved"},
	{"control no mapping", "limits: {control: 3}", "f.yaml:1: limits.control: must be a mapping of keys to values"},
	{"metrics connections", "limits: {metrics: {connections: 65537}}", "f.yaml:1: limits.metrics.connections: 65537 is out of range 1..65536"},
	{"metrics connections of a peer", "limits: {metrics: {connections_per_peer: 0}}", "f.yaml:1: limits.metrics.connections_per_peer: 0 is out of range 1..65536"},
	{"metrics idle", "limits: {metrics: {idle: 1ms}}", `f.yaml:1: limits.metrics.idle: 1ms is out of range 1s..720h`},
	{"metrics reserved", "limits: {metrics: {reserved: 1}}",
		"f.yaml:1: limits.metrics.reserved: the metrics port has no admins, so it keeps no connections for them; leave it out"},
	{"control of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {control: {connections: 3}}"),
		"f.yaml:3: listeners[0].limits.control: is a port of rdmad itself: set limits.control at the top"},
	{"metrics of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {metrics: {connections: 3}}"),
		"f.yaml:3: listeners[0].limits.metrics: is a port of rdmad itself: set limits.metrics at the top"},
	{"control of a connector", outConnector(`listen: "a:1", target: "b:1", limits: {control: {connections: 3}}`),
		"f.yaml:1: connectors[0].limits.control: is a port of rdmad itself: set limits.control at the top"},
	{"idle of a connector", outConnector(`listen: "a:1", target: "b:1", limits: {idle: 0s}`),
		`f.yaml:1: connectors[0].limits.idle: 0s is out of range 1s..720h`},
	{"TCP limit of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {tcp_connections: 3}"),
		"f.yaml:3: listeners[0].limits.tcp_connections: this is a limit of all together: set limits.tcp_connections at the top"},
	{"TCP limit of a connector", outConnector(`listen: "a:1", target: "b:1", limits: {tcp_idle: 1m}`),
		"f.yaml:1: connectors[0].limits.tcp_idle: this is a limit of all together: set limits.tcp_idle at the top"},
	{"memory small", "limits: {memory: 1024}", `f.yaml:1: limits.memory: 1KiB is out of range 16MiB..1TiB`},
	{"memory large", "limits:\n  memory: 1099511627777", `f.yaml:2: limits.memory: 1099511627777 is out of range 16MiB..1TiB`},
	{"memory of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {memory: 33554432}"),
		"f.yaml:3: listeners[0].limits.memory: listeners share one budget: set limits.memory at the top"},
	{"limit of a listener", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n  limits: {connections_per_peer: 0}"),
		"f.yaml:3: listeners[0].limits.connections_per_peer: 0 is out of range 1..65536"},
	{"allow no list", echoListener(`name: l, provider: softiwarp, address: "a:1", service: e, allow: 192.0.2.0/24`),
		"f.yaml:2: listeners[0].allow: must be a list"},
	{"allow nobody", echoListener(`name: l, provider: softiwarp, address: "a:1", service: e, allow: []`),
		"f.yaml:2: listeners[0].allow: an empty list would let everybody in; leave it out to say so, or name who may connect"},
	{"allow a name", echoListener(`name: l, provider: softiwarp, address: "a:1", service: e, allow: [host.example]`),
		`f.yaml:2: listeners[0].allow[0]: "host.example" is neither an address nor a CIDR such as 192.0.2.0/24 or 2001:db8::/32`},
	{"deny past its length", echoListener("name: l, provider: softiwarp, address: \"a:1\", service: e,\n deny: [10.0.0.0/8,\n 192.0.2.1/24]"),
		`f.yaml:4: listeners[0].deny[1]: "192.0.2.1/24" has bits set past its length; write 192.0.2.0/24`},
	{"deny more than mapped", echoListener(`name: l, provider: softiwarp, address: "a:1", service: e, deny: ["::ffff:0:0/90"]`),
		`f.yaml:2: listeners[0].deny[0]: "::ffff:0.0.0.0/90" has bits set past its length; write ::ffc0:0:0/90`},
	{"deny a zone", echoListener(`name: l, provider: softiwarp, address: "a:1", service: e, deny: ["fe80::1%eth0"]`),
		`f.yaml:2: listeners[0].deny[0]: "fe80::1%eth0" is neither an address nor a CIDR such as 192.0.2.0/24 or 2001:db8::/32`},
	{"two on one address", "metrics: {listen: \"a:1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "a:1", service: e`),
		"f.yaml:3: listeners[0].address: a:1 is the address of metrics.listen already"},
	{"all IPv4 addresses and one of them", "metrics: {listen: \"0.0.0.0:1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "192.0.2.7:1", service: e`),
		"f.yaml:3: listeners[0].address: 192.0.2.7:1 overlaps with the address of metrics.listen"},
	{"one address and all of IPv4", "metrics: {listen: \"192.0.2.7:1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "0.0.0.0:1", service: e`),
		"f.yaml:3: listeners[0].address: 0.0.0.0:1 overlaps with the address of metrics.listen"},
	{"all addresses and all of IPv4", "metrics: {listen: \":1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "0.0.0.0:1", service: e`),
		"f.yaml:3: listeners[0].address: 0.0.0.0:1 overlaps with the address of metrics.listen"},
	{"one IPv6 address and all", "metrics: {listen: \"[2001:db8::7]:1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "[::]:1", service: e`),
		"f.yaml:3: listeners[0].address: [::]:1 overlaps with the address of metrics.listen"},
	{"all addresses twice", "metrics: {listen: \":1\"}\n" + echoListener(`name: l, provider: softiwarp, address: "[::]:1", service: e`),
		"f.yaml:3: listeners[0].address: [::]:1 overlaps with the address of metrics.listen"},

	{"connector's target", `connectors: [{name: out, listen: "a:1", provider: softiwarp}]`, `f.yaml:1: connectors[0].target: "" is not HOST:PORT`},
	{"connector's listen", outConnector(`listen: "a", target: "b:1"`), `f.yaml:1: connectors[0].listen: "a" is not HOST:PORT`},
	{"connector's port", outConnector(`listen: "a:1", target: "b:0"`),
		"f.yaml:1: connectors[0].target: nobody listens on port 0; NFS over RDMA is on port 20049"},
	{"connector twice", `connectors: [{name: out, listen: "a:1", provider: softiwarp, target: "b:1"}, {name: out, listen: "a:2", provider: softiwarp, target: "b:1"}]`,
		`f.yaml:1: connectors[1].name: "out" is taken already`},
	{"connector and listener", echoListener(`name: out, provider: softiwarp, address: "a:1", service: e`) + outConnector(`listen: "a:2", target: "b:1"`),
		`f.yaml:3: connectors[0].name: "out" is the name of a listener; the settings of both are those of listener/out`},
	{"connector on an address", "metrics: {listen: \"a:1\"}\n" + outConnector(`listen: "a:1", target: "b:1"`),
		"f.yaml:2: connectors[0].listen: a:1 is the address of metrics.listen already"},
	{"connector's time", outConnector(`listen: "a:1", target: "b:1", dial_timeout: soon`),
		`f.yaml:1: connectors[0].dial_timeout: "soon" is not a time such as 10s`},
	{"connector's short time", outConnector(`listen: "a:1", target: "b:1", callback_timeout: 1ms`),
		`f.yaml:1: connectors[0].callback_timeout: 1ms is out of range 100ms..10m`},
	{"connector's calls", outConnector(`listen: "a:1", target: "b:1", max_calls: 0`),
		"f.yaml:1: connectors[0].max_calls: 0 is out of range 1..4096"},
	{"connector's reply", outConnector(`listen: "a:1", target: "b:1", max_reply: 2000000`),
		`f.yaml:1: connectors[0].max_reply: 2000000 is out of range 1KiB..1088KiB`},
	{"connector's memory", outConnector(`listen: "a:1", target: "b:1", limits: {memory: 1000000}`),
		`f.yaml:1: connectors[0].limits.memory: 1000000 is out of range 16MiB..1TiB`},
	{"connector's limit", outConnector(`listen: "a:1", target: "b:1", limits: {connections: 0}`),
		"f.yaml:1: connectors[0].limits.connections: 0 is out of range 1..65536"},
	{"connector's deny", outConnector(`listen: "a:1", target: "b:1", deny: [x]`),
		`f.yaml:1: connectors[0].deny[0]: "x" is neither an address nor a CIDR such as 192.0.2.0/24 or 2001:db8::/32`},
	{"connector's allow", outConnector(`listen: "a:1", target: "b:1", allow: []`),
		"f.yaml:1: connectors[0].allow: an empty list would let everybody in; leave it out to say so, or name who may connect"},

	{"send_max small", settings("inline: {send_max: 1023}"), "f.yaml:2: settings.inline.send_max: must be between 1024 and 262144 bytes (is 1023)"},
	{"send_max large", settings("inline: {send_max: 262145}"), "f.yaml:2: settings.inline.send_max: must be between 1024 and 262144 bytes (is 262145)"},
	{"send_max negative", settings("inline: {send_max: -1}"), "f.yaml:2: settings.inline.send_max: must be a whole number of bytes, not \"-1\""},
	{"send_max past 32 bits", settings("inline: {send_max: 4294971392}"),
		"f.yaml:2: settings.inline.send_max: must be a whole number of bytes, not \"4294971392\""},
	{"receive_size odd", settings("inline: {receive_size: 4100}"), "f.yaml:2: settings.inline.receive_size: must be a multiple of 1024 bytes between 1024 and 262144 (is 4100)"},
	{"min_chunk large", settings("ddp: {min_chunk: 1048577}"), "f.yaml:2: settings.ddp.min_chunk: must be between 0 and 1048576 bytes (is 1048577)"},
	{"no credits", settings("credits: {max: 0}"), "f.yaml:2: settings.credits.max: must be between 1 and 1024 calls (is 0)"},
	{"credits large", settings("credits: {max: 1025}"), "f.yaml:2: settings.credits.max: must be between 1 and 1024 calls (is 1025)"},
	{"credits crossed", settings("credits: {max: 4, min: 5}"), "f.yaml:2: settings.credits.min: credits.min 5 (config) would be above credits.max 4 (config)"},
	{"credits crossed by a default", settings("credits: {min: 65}"), "f.yaml:2: settings.credits.min: credits.min 65 (config) would be above credits.max 64 (default)"},
	{"placement", settings("ddp: {placement: send}"), `f.yaml:2: settings.ddp.placement: must be exrw, tbsn, choice or bysize, not "send"`},
	{"policy", settings("credits: {policy: greedy}"), `f.yaml:2: settings.credits.policy: must be fixed or adaptive, not "greedy"`},
	{"backchannel", settings("credits: {backchannel: 257}"), "f.yaml:2: settings.credits.backchannel: must be between 0 and 256 calls (is 257)"},
	{"version 2", settings("extensions: {v2: maybe}"), `f.yaml:2: settings.extensions.v2: must be off, on or required, not "maybe"`},
	{"version 2 as a list", settings("extensions: {v2: [on]}"), `f.yaml:2: settings.extensions.v2: must be one value, not a list or a mapping`},
	{"unknown extension", settings("extensions: {v3: on}"),
		"f.yaml:2: settings.extensions.v3: unknown key; known here: backchannel, ccp, characteristics, continuation, msgp, read_replies, send_ddp, v2, xmit"},
	{"dotted key", settings("inline.send_max: 4096"),
		"f.yaml:2: settings.inline.send_max: unknown key; known here: credits, ddp, extensions, inline, remote_invalidation"},

	{"scope of nothing", scope("listner/nfs", "credits: {max: 9}"), "f.yaml:2: scopes.listner/nfs: must be listener/NAME or peer/CIDR"},
	{"global scope", scope("global", "credits: {max: 9}"), "f.yaml:2: scopes.global: global settings belong under settings"},
	{"scope of a connection", scope("connection/7", "credits: {max: 9}"),
		"f.yaml:2: scopes.connection/7: settings of a connection end with it, and a file outlives it: use the scope of its listener or peer here, or rdmactl settings set --scope connection/7"},
	{"scope with host bits", scope("peer/192.0.2.7/24", "credits: {max: 9}"), "f.yaml:2: scopes.peer/192.0.2.7/24: has address bits beyond the prefix length: write peer/192.0.2.0/24"},
	{"scope of no listener", scope("listener/nsf", "credits: {max: 9}"), `f.yaml:2: scopes.listener/nsf: there is no listener or connector "nsf"`},
	{"scope twice", scope("peer/192.0.2.7", "credits: {max: 9}") + "  peer/192.0.2.7/32: {}\n", "f.yaml:4: scopes.peer/192.0.2.7/32: the same scope as in line 2"},
	{"scope twice, spelt otherwise", scope("peer/192.0.2.7/32", "credits: {max: 9}") + "  peer/192.0.2.7: {}\n", "f.yaml:4: scopes.peer/192.0.2.7: the same scope as in line 2"},
	{"scope's unknown key", scope("listener/nfs", "colour: {red: 9}"), "f.yaml:3: scopes.listener/nfs.colour: unknown key; known here: credits, ddp, extensions, inline, remote_invalidation"},
	{"scope's value", scope("peer/2001:db8::/32", "inline: {send_max: 8Kib}"), `f.yaml:3: scopes.peer/2001:db8::/32.inline.send_max: must be a whole number of bytes, not "8Kib"`},
	{"scope's range", scope("listener/nfs", "credits: {weight: 0}"), "f.yaml:3: scopes.listener/nfs.credits.weight: must be between 1 and 100 shares (is 0)"},
	{"scopes as a list", "scopes: [a]", "f.yaml:1: scopes: must be a mapping of keys to values"},
	{"credits crossed at scopes", scope("listener/nfs", "credits: {min: 65}"), "f.yaml:3: scopes.listener/nfs.credits.min: credits.min 65 (config) would be above credits.max 64 (default)"},
	{"extension without another", scope("peer/192.0.2.0/24", "extensions: {characteristics: on}"),
		"f.yaml:3: scopes.peer/192.0.2.0/24.extensions.characteristics: extensions.characteristics on (config) needs extensions.v2, which would be off (default)"},
}

// scope is a configuration that gives something at a scope, in line 3.
func scope(name, what string) string { return "scopes:\n  " + name + ":\n    " + what + "\n" }

// TestAllMistakesAtOnce: the mistakes of settings and scopes come together, by lines.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := Parse("f.yaml", []byte(`settings: {credits: {max: 20}}
scopes:
  listener/nfs: {credits: {min: 30}, ddp: {min_chunk: -1}}
  peer/10.0.0.0/8: {credits: {min: 40}}
  peer/10.0.0.1/8: {credits: {min: 4}}
  listener/other: {credits: {min: 4}}
`), options)
	want := []string{
		"f.yaml:3: scopes.listener/nfs.ddp.min_chunk: must be a whole number of bytes, not \"-1\"",
		"f.yaml:3: scopes.listener/nfs.credits.min: credits.min 30 (config) would be above credits.max 20 (config)",
		"f.yaml:4: scopes.peer/10.0.0.0/8.credits.min: credits.min 40 (config) would be above credits.max 20 (config)",
		"f.yaml:5: scopes.peer/10.0.0.1/8: has address bits beyond the prefix length: write peer/10.0.0.0/8",
		"f.yaml:6: scopes.listener/other: there is no listener or connector \"other\"",
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

// TestStoredListeners: the file may name a listener that operators added.
func TestStoredListeners(t *testing.T) {
	o := options
	o.Stored = func(state string) []string { return []string{state + "!"} }
	text := "state: {path: lab}\nscopes: {listener/lab!: {credits: {max: 9}}}"
	if _, err := Parse("f.yaml", []byte(text), o); err != nil {
		t.Error(err)
	}
}

func TestBadInput(t *testing.T) {
	for _, c := range badInput {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse("f.yaml", []byte(c.text), options)
			if err == nil {
				t.Fatalf("taken, as %+v", got)
			}
			if err.Error() != c.want {
				t.Errorf("got  %s\nwant %s", err, c.want)
			}
			var e *Error
			if !errors.As(err, &e) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%T is not one line of *Error", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add("listeners: [{name: nfs, provider: softiwarp, address: \"127.0.0.1:20049\", service: export}]\nservices: [{name: export, nfs: {path: ./export}}]")
	for _, c := range badInput {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f.yaml", []byte(text), options)
		if err != nil {
			mistakes, ok := errors.AsType[configfile.Errors](err)
			if !ok {
				t.Errorf("%T: %v", err, err)
			}
			for _, one := range mistakes {
				if strings.Contains(one.Error(), "\n") {
					t.Errorf("more than a line: %q", one)
				}
			}
			return
		}
		if all, _ := c.Settings.Initial(); all.InlineSendMax < 1024 || all.CreditsMin > all.CreditsMax {
			t.Errorf("taken, with settings %+v", all)
		}
	})
}

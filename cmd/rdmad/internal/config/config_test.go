package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

var options = Options{Providers: []string{"softiwarp"}}

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("rdmad.yaml", []byte(text), options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmptyFileIsTheDefault(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "listeners:\nservices: []\nsettings: {inline: }\n", "{}"} {
		got := parse(t, text)
		want := Default("")
		want.File, want.Origins = "rdmad.yaml", got.Origins
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives\n%+v, want\n%+v", text, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Default("")
	if c.Control.Listen != "127.0.0.1:20050" || c.Metrics.Listen != "127.0.0.1:20051" || c.State.Path != "./rdmad.state" {
		t.Errorf("control %q, metrics %q, state %q", c.Control.Listen, c.Metrics.Listen, c.State.Path)
	}
	if want := (spec.Listener{Name: "nfs", Provider: "softiwarp", Address: "127.0.0.1:20049", Service: "export"}); !reflect.DeepEqual(c.Listeners, []spec.Listener{want}) {
		t.Errorf("listeners %+v", c.Listeners)
	}
	if want := (spec.NFS{Export: spec.Export{Path: "./export"}, TCPListen: "127.0.0.1:20048"}); len(c.Services) != 1 || !reflect.DeepEqual(*c.Services[0].NFS, want) {
		t.Errorf("services %+v", c.Services)
	}
	if s := Default("/srv").Services[0].NFS; s.Path != "/srv" {
		t.Errorf("export %q", s.Path)
	}
	all, given := c.Settings.Initial()
	if all != live.Default() || given != 0 {
		t.Errorf("settings %+v, given %v", all, given)
	}
}

func TestEveryKey(t *testing.T) {
	c := parse(t, `
control: {listen: "unix:///run/rdmad/100% control.sock"}
metrics: {listen: "0.0.0.0:9000"}
state: {path: /var/lib/rdmad}
listeners:
  - {name: nfs, provider: softiwarp, address: "[::]:20049", service: data, rpcbind: on}
  - {name: test.1, provider: softiwarp, address: "storage:0", service: test,
     limits: {connections: 10, connections_per_peer: 2, handshakes: 3}, allow: [192.0.2.0/24, "2001:db8::1"], deny: ["::ffff:192.0.2.7"]}
limits: {connections: 1000, connections_per_peer: 100, handshakes: 50, memory: 67108864, tcp_connections: 200, tcp_connections_per_peer: 20, tcp_idle: 90s}
services:
  - {name: data, nfs: {path: /srv, read_only: on}}
  - {name: test, echo: {}}
  - name: bare
    echo:
settings:
  inline: {send_max: 8192, receive_size: 16384}
  ddp: {min_chunk: 0, placement: choice}
  remote_invalidation: {accept: false, use: off}
  credits: {policy: fixed, max: 128, min: 2, backchannel: 0, weight: 7}
  extensions: {v2: off, msgp: yes, ccp: false}
`)
	if c.Control.Listen != "unix:///run/rdmad/100% control.sock" || c.Metrics.Listen != "0.0.0.0:9000" || c.State.Path != "/var/lib/rdmad" {
		t.Errorf("control %+v, metrics %+v, state %+v", c.Control, c.Metrics, c.State)
	}
	if len(c.Listeners) != 2 || !c.Listeners[0].RPCBind || !reflect.DeepEqual(c.Listeners[1], spec.Listener{
		Name: "test.1", Provider: "softiwarp", Address: "storage:0", Service: "test",
		Limits: dataplane.Limits{Connections: 10, ConnectionsPerPeer: 2, Handshakes: 3},
		Access: dataplane.Access{
			Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::1/128")},
			Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")},
		},
	}) {
		t.Errorf("listeners %+v", c.Listeners)
	}
	if want := (dataplane.TCPLimits{Connections: 200, ConnectionsPerPeer: 20, Idle: 90 * time.Second}); c.Limits.TCP() != want {
		t.Errorf("TCP limits %+v", c.Limits.TCP())
	}
	if want := (dataplane.Limits{Connections: 1000, ConnectionsPerPeer: 100, Handshakes: 50}); c.Limits.Limits != want || c.Limits.Memory != 64<<20 {
		t.Errorf("limits %+v", c.Limits)
	}
	if len(c.Services) != 3 || !reflect.DeepEqual(*c.Services[0].NFS, spec.NFS{Export: spec.Export{Path: "/srv", ReadOnly: true}}) || c.Services[1].Echo == nil || c.Services[2].Echo == nil {
		t.Errorf("services %+v", c.Services)
	}
	all, given := c.Settings.Initial()
	want := live.Default()
	want.InlineSendMax, want.InlineReceiveSize, want.DDPMinChunk, want.Placement = 8192, 16384, 0, live.PlaceChosen
	want.RemoteInvalidationAccept, want.RemoteInvalidationUse = false, false
	want.CreditsPolicy, want.CreditsMax, want.CreditsMin, want.CreditsBackchannel, want.CreditsWeight = live.CreditsFixed, 128, 2, 0, 7
	want.Extensions = live.ExtMSGP | live.ExtBackchannel
	if all != want {
		t.Errorf("settings %+v, want %+v", all, want)
	}
	if got := given.String(); got != "inline.send_max, inline.receive_size, ddp.min_chunk, ddp.placement, remote_invalidation.accept, remote_invalidation.use, "+
		"credits.policy, credits.max, credits.min, credits.backchannel, credits.weight, extensions.v2, extensions.msgp, extensions.ccp" {
		t.Errorf("given %s", got)
	}
}

func TestVersion2(t *testing.T) {
	for text, want := range map[string]live.Extensions{
		"off": 0, "false": 0, "No": 0, "on": live.ExtV2, "true": live.ExtV2, `"on"`: live.ExtV2, "required": live.ExtV2Only,
	} {
		c := parse(t, "settings: {extensions: {v2: "+text+"}}")
		all, given := c.Settings.Initial()
		if all.Extensions != want|live.Default().Extensions || given != live.KeySet(0).With(live.ExtensionV2) {
			t.Errorf("%s: extensions %b, given %v", text, all.Extensions, given)
		}
		layer := c.Layer()
		if got := layer.Values.Settings().Extensions; got != want {
			t.Errorf("%s: the layer has %b", text, got)
		}
	}
}

// A file turns off an option that is on by default: the effective value is that of the line.
func TestDefaultsAreTurnedOff(t *testing.T) {
	c := parse(t, "settings: {extensions: {backchannel: off}, remote_invalidation: {use: off}}")
	all, given := c.Settings.Initial()
	if all.Extensions != 0 || all.RemoteInvalidationUse || len(given.Keys()) != 2 {
		t.Errorf("in force %+v, given %v", all, given)
	}
	f := c.Layer()
	if got := f.Values.Format(live.ExtensionBackchannel); got != "off" || f.Lines[live.ExtensionBackchannel] != 1 {
		t.Errorf("the layer has %s", got)
	}
}

// Sizes take units.
func TestSizes(t *testing.T) {
	c := parse(t, "settings: {inline: {send_max: 8KiB, receive_size: 16 KiB}, ddp: {min_chunk: \"1048576\"}}")
	if all, _ := c.Settings.Initial(); all.InlineSendMax != 8192 || all.InlineReceiveSize != 16384 || all.DDPMinChunk != 1<<20 {
		t.Errorf("in force %+v", all)
	}
}

func TestSettingLines(t *testing.T) {
	c := parse(t, "settings:\n  inline: {send_max: 2048,\n    receive_size: 2048}\n  ddp: {min_chunk: }\n  extensions:\n    ccp: on\n    v2: off\n")
	want := live.ByKey[int]{live.InlineSendMax: 2, live.InlineReceiveSize: 3, live.ExtensionCCP: 6, live.ExtensionV2: 7}
	if got := c.Layer().Lines; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLayer: every key that a file may give is one of the control plane's.
func TestLayer(t *testing.T) {
	c := parse(t, `settings:
  inline: {send_max: 8192, receive_size: 16384}
  ddp: {min_chunk: 0}
  remote_invalidation: {accept: false, use: off}
  credits: {policy: adaptive, max: 128, min: 2, backchannel: 0, weight: 7}
  extensions: {v2: required, msgp: on, read_replies: off, ccp: on, backchannel: on}
`)
	f := c.Layer()
	_, given := c.Settings.Initial()
	if len(given.Keys()) != 15 || f.Values.Keys() != given || f.Name != "rdmad.yaml" {
		t.Errorf("%v given, layer %+v", given, f)
	}
	for _, k := range f.Values.Keys().Keys() {
		if f.Lines[k] < 2 || f.Lines[k] > 6 {
			t.Errorf("%s in line %d", k, f.Lines[k])
		}
	}
	if got := f.Values.Format(live.CreditsPolicy) + f.Values.Format(live.ExtensionCCP) + f.Values.Format(live.CreditsWeight); got != "adaptiveon7" {
		t.Errorf("values %s", got)
	}
}

func TestSectionsKeepOtherDefaults(t *testing.T) {
	c := parse(t, `
services: [{name: e, echo: {}}]
listeners: [{name: e, provider: softiwarp, address: "127.0.0.1:1", service: e}]
settings: {inline: {send_max: 1024}}
metrics: {listen: ""}
`)
	if c.Control.Listen != "127.0.0.1:20050" || c.State.Path != "./rdmad.state" || c.Metrics.Listen != "" {
		t.Errorf("control %+v, state %+v, metrics %+v", c.Control, c.State, c.Metrics)
	}
	if len(c.Services) != 1 || c.Services[0].NFS != nil {
		t.Errorf("services %+v: the default's got in", c.Services)
	}
	if all, _ := c.Settings.Initial(); all.InlineSendMax != 1024 || all.InlineReceiveSize != live.Default().InlineReceiveSize {
		t.Errorf("settings %+v", all)
	}
}

func TestExportReplacesTheOnlyPath(t *testing.T) {
	o := options
	o.Export = "/data"
	c, err := Parse("f", []byte("services: [{name: a, nfs: {path: ./x}}, {name: e, echo: {}}]"), o)
	if err != nil || c.Services[0].NFS.Path != "/data" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = Parse("f", []byte("services: [{name: e, echo: {}}]"), o)
	if want := "--export: f has 0 nfs services, not one; set their path there"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if _, err := Load(file, options); !os.IsNotExist(err) {
		t.Errorf("error %v for a missing file", err)
	}
	if err := os.WriteFile(file, []byte("metrics: {listen: \"127.0.0.1:1\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, options)
	if err != nil || c.File != file || c.Metrics.Listen != "127.0.0.1:1" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSamplesLoad(t *testing.T) {
	samples, err := filepath.Glob("../../../../configs/*.yaml")
	if err != nil || len(samples) < 3 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for _, file := range samples {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "#") {
			t.Errorf("%s doesn't begin by saying what it is for", file)
		}
		if _, err := Load(file, Options{Providers: []string{"rdmacore", "softiwarp"}}); err != nil {
			t.Error(err)
		}
	}
}

func TestRdmacore(t *testing.T) {
	c, err := Parse("f", []byte("providers: {rdmacore: {device: mlx5_0, rnr_retry_count: 0, rnr_timer: 5ms, ack_timeout: 67ms, busy_poll: 50us, keep_alive: 5s, register_sinks: true}}"), options)
	want := tuning.Settings{
		Device: "mlx5_0", RetryCount: 7, RNRTimer: 5 * time.Millisecond, AckTimeout: 67 * time.Millisecond, BusyPoll: 50 * time.Microsecond,
		KeepAlive: 5 * time.Second, RegisterSinks: true,
	}
	if err != nil || c.Providers.Rdmacore != want {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{"", "providers:\n", "providers: {rdmacore: }"} {
		if c, err := Parse("f", []byte(text), options); err != nil || c.Providers.Rdmacore != tuning.Default() {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
}

func TestAbsentProvider(t *testing.T) {
	o := Options{Providers: []string{"softiwarp"}, Absent: map[string]string{"rdmacore": "get it there"}}
	_, err := Parse("f", []byte("services: [{name: e, echo: {}}]\nlisteners: [{name: a, provider: rdmacore, address: \"h:1\", service: e}]"), o)
	if want := `f:2: listeners[0].provider: "rdmacore" is not in this build, which has: softiwarp; get it there`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAddressesBesideEachOther: one port at different addresses, and a port of an adapter, are no mistake.
func TestAddressesBesideEachOther(t *testing.T) {
	const file = `metrics: {listen: "127.0.0.1:1"}
services: [{name: e, echo: {}}, {name: n, nfs: {path: ., tcp_listen: "192.0.2.7:2"}}]
listeners:
  - {name: a, provider: softiwarp, address: "127.0.0.2:1", service: e}
  - {name: b, provider: softiwarp, address: "[::1]:1", service: e}
  - {name: c, provider: rdmacore, address: "0.0.0.0:2", service: e}
  - {name: d, provider: softiwarp, address: "127.0.0.1:0", service: e}
  - {name: e, provider: softiwarp, address: "0.0.0.0:0", service: e}
`
	if _, err := Parse("f", []byte(file), Options{}); err != nil {
		t.Error(err)
	}
}

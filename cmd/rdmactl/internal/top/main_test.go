package top

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var update = flag.Bool("update", false, "write what the view shows to testdata")

// born is when everything came up.
var born = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// fake answers what the view asks, and remembers it.
type fake struct {
	asked  []string
	down   map[string]bool // connections
	refuse error           // SetSettings
	value  string          // of inline.send_max
}

var errDown = errors.New("connection is down")

func (f *fake) note(format string, args ...any) {
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

func (f *fake) detail(id string) detail {
	f.note("detail %s", id)
	if f.down[id] {
		return detail{id: id, err: errDown}
	}
	set, _ := f.settings("connection/" + id)
	f.asked = f.asked[:len(f.asked)-1]
	return detail{id: id, conn: shown(id), settings: set}
}

func shown(id string) *rdmadv1.GetConnectionResponse {
	return &rdmadv1.GetConnectionResponse{
		Connection: &rdmadv1.Connection{
			Id: id, Listener: "nfs", Provider: "softiwarp", Peer: "192.0.2.7:1001", Local: "192.0.2.1:20049", RpcVersion: 1,
			InlineSend: 4096, InlineReceive: 4096, CreditsGranted: 64, RemoteInvalidation: true, Service: "export",
			State: rdmadv1.Connection_UP, Since: timestamppb.New(born), Calls: 1200, Replies: 1199, RdmaReads: 40, RdmaWrites: 500,
			Sends: 1199, SendsWithInvalidate: 800, BytesReceived: 5e9, BytesSent: 1 << 40, Errors: 2,
		},
		Transport: &rdmadv1.TransportStatistics{
			ConnectCount: 1, ConnectSeconds: 0.0125, Sends: 1199, Receives: 1200, ReadChunkCount: 40, WriteChunkCount: 500,
			CallSizes:  []*rdmadv1.SizeCount{{From: 0, To: 63}, {From: 64, To: 127, Count: 600}, {From: 128, To: 255, Count: 560}, {From: 4096, To: 8191, Count: 40}},
			ReplySizes: []*rdmadv1.SizeCount{{From: 128, To: 255, Count: 600}, {From: 1 << 20, To: 1<<21 - 1, Count: 599}},
		},
	}
}

func (f *fake) settings(scope string) (*rdmadv1.GetSettingsResponse, error) {
	f.note("settings %s", scope)
	value := f.value
	if value == "" {
		value = "4096"
	}
	return &rdmadv1.GetSettingsResponse{Revision: 5, Scope: scope, Values: []*rdmadv1.SettingValue{
		{Key: "inline.send_max", Value: value, Source: "global", Revision: 5},
		{Key: "inline.receive_size", Value: "4096", Source: "default"},
		{Key: "remote_invalidation.use", Value: "on", Source: "config", Location: "/etc/rdmad.yaml:5"},
		{Key: "credits.max", Value: "64", Source: "default"},
	}}, nil
}

func (f *fake) about(key, scope string) (*rdmadv1.ExplainSettingResponse, error) {
	f.note("about %s %s", key, scope)
	return &rdmadv1.ExplainSettingResponse{
		Value:   &rdmadv1.SettingValue{Key: key, Value: "4096", Source: "global", Revision: 5},
		Summary: "Largest Send that rdmad makes, in bytes, transport header included.",
		Allowed: "1024 to 262144", TakesEffect: "at once",
	}, nil
}

func (f *fake) set(req *rdmadv1.SetSettingsRequest) (*rdmadv1.SetSettingsResponse, error) {
	f.note("set %s dry=%v revision=%d", req.GetScope(), req.GetDryRun(), req.GetExpectedRevision())
	if f.refuse != nil {
		return nil, f.refuse
	}
	res := &rdmadv1.SetSettingsResponse{Revision: 5, Effects: []*rdmadv1.Effect{
		{ConnectionId: "1", Outcome: rdmadv1.Effect_APPLIED},
		{ConnectionId: "2", Outcome: rdmadv1.Effect_PENDING_RECONNECT, Reason: "inline.receive_size: version 1 fixes it at connect"},
		{ConnectionId: "10", Outcome: rdmadv1.Effect_UNSUPPORTED, Reason: "the peer did not offer it"},
	}}
	if !req.GetDryRun() {
		res.Revision = 6
	}
	return res, nil
}

func (f *fake) end(id string, how ending) error {
	f.note("%s %s", how.verb(), id)
	if f.down[id] {
		return errDown
	}
	return nil
}

// viewer drives a model as a terminal would.
type viewer struct {
	*testing.T
	*model
	control *fake
	quit    bool
}

func view(t *testing.T, width, height int) *viewer {
	f := &fake{down: map[string]bool{}}
	o := &Options{
		Addr: "127.0.0.1:20050", Interval: time.Second, Sort: "calls",
		Assign: func(all []string) (*rdmadv1.Settings, []string, error) {
			if !strings.Contains(all[0], "=2048") {
				return nil, nil, fmt.Errorf("%s: must be a number", all[0])
			}
			return &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{SendMax: new(uint32(2048))}}, nil, nil
		},
		Values: func(key string) []string {
			if strings.HasPrefix(key, "remote") {
				return []string{"on", "off"}
			}
			return nil
		},
		Explain: func(err error) string { return err.Error() },
		Lost:    func(_ error, now time.Time) time.Time { return now },
	}
	v := &viewer{T: t, model: newModel(o, f), control: f}
	v.send(tea.WindowSizeMsg{Width: width, Height: height})
	return v
}

// send gives a message to the model, and then those of the commands that
// follow from it.
func (v *viewer) send(msg tea.Msg) {
	_, cmd := v.Update(msg)
	if cmd == nil {
		return
	}
	switch next := cmd().(type) {
	case nil:
	case tea.QuitMsg:
		v.quit = true
	default:
		v.send(next)
	}
}

// named are keys that have no character.
var named = map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "up": tea.KeyUp, "down": tea.KeyDown, "left": tea.KeyLeft,
	"right": tea.KeyRight, "home": tea.KeyHome, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace, "space": tea.KeySpace}

// keys types keys by their names, and other words by their letters.
func (v *viewer) keys(words ...string) {
	for _, w := range words {
		if code, ok := named[w]; ok {
			v.send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range w {
			v.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// screen is what is to be seen.
func (v *viewer) screen() *Screen {
	s := NewScreen(v.width, v.height)
	content := v.View().Content
	if n := strings.Count(content, "\n") + 1; n > v.height {
		v.Errorf("%d lines in a terminal of %d", n, v.height)
	}
	s.Write([]byte(strings.ReplaceAll(content, "\n", "\r\n")))
	return s
}

// golden compares the screen with a file.
func (v *viewer) golden(name string) {
	v.Helper()
	file := filepath.Join("testdata", name+".txt")
	got := v.screen().String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			v.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		v.Fatal(err)
	}
	if got != string(want) {
		v.Errorf("%s: got:\n%s\nwant:\n%s", name, got, want)
	}
}

// sees checks that texts are on the screen.
func (v *viewer) sees(texts ...string) {
	v.Helper()
	s := v.screen().String()
	for _, text := range texts {
		if !strings.Contains(s, text) {
			v.Errorf("no %q in:\n%s", text, s)
		}
	}
}

// order is the ids of the table's rows.
func (v *viewer) order() string {
	var ids []string
	for _, r := range v.visible {
		ids = append(ids, r.id)
	}
	return strings.Join(ids, " ")
}

// moment is the n-th snapshot of a rdmad with three connections.
func moment(n int) snapshot {
	f := float64(n)
	conns := []*rdmadv1.Connection{
		{Id: "1", Listener: "nfs", Peer: "192.0.2.7:1001", Service: "export", State: rdmadv1.Connection_UP, Errors: 2},
		{Id: "2", Listener: "backup", Peer: "[2001:db8::8]:1002", Service: "archive", State: rdmadv1.Connection_DRAINING},
		{Id: "10", Listener: "nfs", Peer: "198.51.100.23:54321", Service: "export", State: rdmadv1.Connection_UP},
	}
	rates := []*rdmadv1.Rates{
		{Calls: 1200 + 100*f, BytesReceived: 1.5e6, BytesSent: 800e6 + 1e7*f, RdmaReads: 40, RdmaWrites: 500, Sends: 1200, SendsWithInvalidate: 800},
		{Calls: 0.5, BytesReceived: 3e3},
		{Calls: 151234 - 10000*f, BytesReceived: 12.3e6, BytesSent: 45.6e6, Sends: 151234},
	}
	s := snapshot{
		status: &rdmadv1.GetStatusResponse{Version: "v1.2.3", Started: timestamppb.New(born), UptimeSeconds: 7380 + f, Revision: 5},
		conns:  conns,
		sample: &rdmadv1.WatchTelemetryResponse{Seconds: 1, Total: &rdmadv1.Rates{Calls: 152434 - 9900*f, BytesReceived: 13.8e6, BytesSent: 845e6 + 1e7*f},
			Listeners: []*rdmadv1.ListenerSample{
				{Name: "backup", Connections: 1, ServiceTimeUsP50: 12, ServiceTimeUsP99: 1234, MemoryUsed: 3 << 20, MemoryLimit: 256 << 20},
				{Name: "nfs", Connections: 2, ServiceTimeUsP50: 0.4, ServiceTimeUsP99: 85, MemoryUsed: 130 << 20, MemoryLimit: 256 << 20},
			}},
	}
	for i, c := range conns {
		s.sample.Connections = append(s.sample.Connections, &rdmadv1.ConnectionSample{Id: c.GetId(), Rates: rates[i], CallsInProgress: uint32(i), CreditsGranted: 64})
	}
	return s
}

// playing is a viewer that has seen some samples.
func playing(t *testing.T, width, height int) *viewer {
	v := view(t, width, height)
	for n := range 12 {
		v.send(moment(n))
	}
	return v
}

package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func Example() {
	effects := &rdmadv1.SetSettingsResponse{Revision: 3, Effects: []*rdmadv1.Effect{
		{ConnectionId: "1", Outcome: rdmadv1.Effect_APPLIED},
		{ConnectionId: "2", Outcome: rdmadv1.Effect_PENDING_RECONNECT, Reason: "inline.receive_size: version 1 fixes it"},
		{ConnectionId: "3", Outcome: rdmadv1.Effect_UNSUPPORTED},
	}}
	line, err := jsonLine(effects)
	fmt.Println(string(line))
	fmt.Println(err)
	line, err = jsonLine(&rdmadv1.Connection{})
	fmt.Println(string(line))
	fmt.Println(err)
	// Output:
	// {"revision":3,"effects":[{"connection_id":"1","outcome":"APPLIED","reason":""},{"connection_id":"2","outcome":"PENDING_RECONNECT","reason":"inline.receive_size: version 1 fixes it"},{"connection_id":"3","outcome":"UNSUPPORTED","reason":""}],"confirm_deadline":null}
	// <nil>
	// {"id":"","listener":"","provider":"","peer":"","rpc_version":0,"inline_send":0,"inline_receive":0,"credits_granted":0,"remote_invalidation":false,"extensions":[],"calls":0,"replies":0,"reverse_calls":0,"rdma_reads":0,"rdma_writes":0,"sends":0,"sends_with_invalidate":0,"errors":0,"service":"","state":"STATE_UNSPECIFIED","local":"","since":null,"receives":0,"bytes_received":0,"bytes_sent":0,"calls_in_progress":0,"client":""}
	// <nil>
}

// busy is a connection with counters where a float's spelling could change.
var busy = &rdmadv1.ListConnectionsResponse{Connections: []*rdmadv1.Connection{{
	Id: "1", Peer: "yes", Calls: 1 << 53, Replies: 1e6, Sends: 12345678901, RdmaReads: 0.5e7, BytesSent: 9e15, Extensions: []string{"1.5", "null"},
}}}

// answer returns what a Printer writes for m.
func answer(t *testing.T, format string, m proto.Message) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := NewPrinter(&out, format).Answer(m, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestJSONIsTheAnswer(t *testing.T) {
	out := answer(t, FormatJSON, busy)
	back := &rdmadv1.ListConnectionsResponse{}
	if err := protojson.Unmarshal(out, back); err != nil || !proto.Equal(back, busy) {
		t.Errorf("reads as %v, %v", back, err)
	}
	for _, want := range []string{`"calls": 9007199254740992,`, `"replies": 1000000,`, `"sends": 12345678901,`, `"bytes_sent": 9000000000000000`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is not in\n%s", want, out)
		}
	}
}

func TestYAMLSaysTheSame(t *testing.T) {
	asJSON, asYAML := answer(t, FormatJSON, busy), answer(t, FormatYAML, busy)
	var fromJSON, fromYAML any
	if err := json.Unmarshal(asJSON, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(asYAML, &fromYAML); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var fromBoth any
	if err := json.Unmarshal(again, &fromBoth); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%#v", fromBoth), fmt.Sprintf("%#v", fromJSON); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestYAMLOfEveryCharacter: texts of peers and file names may have any character, and YAML keeps it.
func TestYAMLOfEveryCharacter(t *testing.T) {
	for _, text := range []string{"a\x7fb", "a\u0080b", "a\u0085b", "a\u2028\u2029b", "\ufeffa", "a\uffffb", "a\U000e0001\u00a0b", "\u009b", "漢 ü 👩‍🚀", "\ta\nb"} {
		out := answer(t, FormatYAML, &rdmadv1.CloseConnectionRequest{Id: text})
		var back struct{ Id string }
		if err := yaml.Unmarshal(out, &back); err != nil || back.Id != text {
			t.Errorf("%q: %s reads as %q, %v", text, out, back.Id, err)
		}
	}
}

// TestYAMLOfOlderReaders: what YAML 1.1 takes for another type has quotes, such as the value of a setting that is on.
func TestYAMLOfOlderReaders(t *testing.T) {
	for _, text := range []string{"on", "off", "Yes", "NO", "y", "12:30", "-1:59.5", "<<", "="} {
		if out, want := string(answer(t, FormatYAML, &rdmadv1.CloseConnectionRequest{Id: text})), fmt.Sprintf("id: %q\n", text); out != want {
			t.Errorf("%s, want %s", out, want)
		}
	}
	for _, text := range []string{"one", "10.0.0.1:20049", "fe80::1", "2:60"} {
		if out := string(answer(t, FormatYAML, &rdmadv1.CloseConnectionRequest{Id: text})); out != "id: "+text+"\n" {
			t.Errorf("%s", out)
		}
	}
}

// TestNumbersAreNumbers: protobuf's JSON writes 64-bit integers as strings,
// so no answer may have them. Addresses of segments use all 64 bits, and are
// strings for that.
func TestNumbersAreNumbers(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var look func(m protoreflect.MessageDescriptor)
	look = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), "rdmad.") {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			fd := m.Fields().Get(i)
			switch fd.Kind() {
			case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind,
				protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
				if fd.FullName() != "rdmad.v1.Segment.offset" {
					t.Errorf("%s is a string in JSON", fd.FullName())
				}
			case protoreflect.MessageKind:
				look(fd.Message())
			}
		}
	}
	for _, file := range []protoreflect.FileDescriptor{
		rdmadv1.File_rdmad_v1_connection_proto, rdmadv1.File_rdmad_v1_listener_proto,
		rdmadv1.File_rdmad_v1_settings_proto, rdmadv1.File_rdmad_v1_status_proto,
		rdmadv1.File_rdmad_v1_extension_proto, rdmadv1.File_rdmad_v1_telemetry_proto,
		rdmadv1.File_rdmad_v1_audit_proto, rdmadv1.File_rdmad_v1_diagnostics_proto,
	} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				look(methods.Get(j).Output())
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("looked at %d messages only", len(seen))
	}
}

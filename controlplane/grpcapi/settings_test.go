package grpcapi_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// request reads a SetSettingsRequest from JSON.
func request(t *testing.T, text string) *rdmadv1.SetSettingsRequest {
	t.Helper()
	m := &rdmadv1.SetSettingsRequest{}
	must(t, protojson.Unmarshal([]byte(text), m))
	return m
}

func TestSetAndGet(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	res, err := c.SetSettings(t.Context(), request(t,
		`{"scope":"listener/nfs","settings":{"inline":{"send_max":1024},"remote_invalidation":{"use":true}},"expected_revision":0}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &rdmadv1.SetSettingsResponse{Revision: 1, Effects: []*rdmadv1.Effect{
		{ConnectionId: "1", Outcome: rdmadv1.Effect_APPLIED},
		{ConnectionId: "2", Outcome: rdmadv1.Effect_UNSUPPORTED, Reason: "remote_invalidation.use: the peer did not offer it"},
	}}
	if !proto.Equal(res, want) {
		t.Errorf("got  %v\nwant %v", res, want)
	}
	conn, err := rdmadv1.NewConnectionServiceClient(b.client).GetConnection(t.Context(), &rdmadv1.GetConnectionRequest{Id: "1"})
	if err != nil || conn.GetConnection().GetInlineSend() != 1024 {
		t.Errorf("connection 1: %v, %v", conn, err)
	}
	got := have(c.GetSettings(t.Context(), &rdmadv1.GetSettingsRequest{Scope: "connection/1", Keys: []string{"inline", "credits.max"}}))(t)
	wantGet := &rdmadv1.GetSettingsResponse{
		Revision: 1, Scope: "connection/1",
		Settings: &rdmadv1.Settings{
			Inline:  &rdmadv1.InlineSettings{SendMax: proto.Uint32(1024), ReceiveSize: proto.Uint32(4096)},
			Credits: &rdmadv1.CreditsSettings{Max: proto.Uint32(64)},
		},
		Values: []*rdmadv1.SettingValue{
			{Key: "inline.send_max", Value: "1024", Source: "listener/nfs", Revision: 1},
			{Key: "inline.receive_size", Value: "4096", Source: "default"},
			{Key: "credits.max", Value: "64", Source: "config"},
		},
	}
	if !proto.Equal(got, wantGet) {
		t.Errorf("got  %v\nwant %v", got, wantGet)
	}
	res, err = c.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Scope: "listener/nfs", Unset: []string{"inline.send_max"}})
	if err != nil || res.GetRevision() != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	got, err = c.GetSettings(t.Context(), &rdmadv1.GetSettingsRequest{Scope: "connection/1", Keys: []string{"inline.send_max"}})
	if err != nil || got.GetValues()[0].GetValue() != "4096" || got.GetValues()[0].GetSource() != "default" {
		t.Errorf("after unset: %v, %v", got, err)
	}
}

func TestDryRun(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	res := have(c.SetSettings(t.Context(), request(t, `{"settings":{"inline":{"receive_size":8192}},"dry_run":true}`)))(t)
	if res.GetRevision() != 0 || len(res.GetEffects()) != 2 || res.GetEffects()[0].GetOutcome() != rdmadv1.Effect_PENDING_RECONNECT {
		t.Errorf("%v", res)
	}
	if b.plane.Applied() != 0 {
		t.Errorf("applied %d times", b.plane.Applied())
	}
}

// TestSetRefuses holds code, message and detail of every refusal.
func TestSetRefuses(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	for _, test := range []struct {
		request string
		code    codes.Code
		message string
		detail  string
	}{
		{
			`{"settings":{"inline":{"send_max":5},"credits":{"max":0}}}`, codes.InvalidArgument,
			"inline.send_max: must be greater than or equal to 1024 and less than or equal to 262144 (is 5); " +
				"credits.max: must be greater than or equal to 1 and less than or equal to 1024 (is 0)",
			"BadRequest inline.send_max credits.max",
		},
		{
			`{"settings":{"inline":{"receive_size":1500}}}`, codes.InvalidArgument,
			"inline.receive_size: must be a multiple of 1024 (is 1500)", "BadRequest inline.receive_size",
		},
		{
			`{"settings":{"credits":{"policy":"POLICY_UNSPECIFIED"}}}`, codes.InvalidArgument,
			"credits.policy: must be fixed or adaptive", "BadRequest credits.policy",
		},
		{
			`{"settings":{"credits":{"min":65}}}`, codes.InvalidArgument,
			"credits.min: credits.min 65 (global) would be above credits.max 64 (config)", "BadRequest credits.min",
		},
		{`{}`, codes.InvalidArgument, "settings: nothing to change", "BadRequest settings"},
		{
			`{"scope":"peer/nfs","settings":{"ddp":{"min_chunk":1}}}`, codes.InvalidArgument,
			`scope: "nfs" is not an address or CIDR, such as peer/192.0.2.0/24`, "BadRequest scope",
		},
		{`{"unset":["inline.send"]}`, codes.InvalidArgument, "unset: there is no setting inline.send", "BadRequest unset"},
		{
			`{"unset":["ddp.min_chunk","ddp.min_chunk"]}`, codes.InvalidArgument,
			"unset: repeated value must contain unique items", "BadRequest unset",
		},
		{
			`{"settings":{"ddp":{"min_chunk":1}},"expected_revision":4}`, codes.Aborted,
			"the settings are at revision 0, not 4: read them again",
			"ErrorInfo ERROR_REASON_STALE_REVISION map[current_revision:0]",
		},
		{
			`{"settings":{"extensions":{"send_ddp":true}}}`, codes.InvalidArgument,
			"extensions.send_ddp: extensions.send_ddp on (global) needs extensions.v2, which would be off (default)",
			"BadRequest extensions.send_ddp",
		},
		{
			`{"settings":{"credits":{"backchannel":257}}}`, codes.InvalidArgument,
			"credits.backchannel: must be less than or equal to 256 (is 257)", "BadRequest credits.backchannel",
		},
		{
			`{"scope":"listener/none","settings":{"ddp":{"min_chunk":1}}}`, codes.NotFound,
			"listener/none: there is no such listener", "",
		},
		{
			`{"scope":"connection/9","settings":{"ddp":{"min_chunk":1}}}`, codes.NotFound,
			"connection/9: there is no such connection; its settings ended with it", "",
		},
	} {
		_, err := c.SetSettings(t.Context(), request(t, test.request))
		st := status.Convert(err)
		if st.Code() != test.code || st.Message() != test.message || detail(st) != test.detail {
			t.Errorf("%s:\ngot  %s %q %s\nwant %s %q %s", test.request, st.Code(), st.Message(), detail(st),
				test.code, test.message, test.detail)
		}
	}
	if b.plane.Applied() != 0 {
		t.Errorf("applied %d times", b.plane.Applied())
	}
}

// detail writes a status's one detail.
func detail(st *status.Status) string {
	if len(st.Details()) != 1 {
		return strings.TrimPrefix(fmt.Sprint(len(st.Details())), "0")
	}
	switch d := st.Details()[0].(type) {
	case *errdetails.BadRequest:
		text := "BadRequest"
		for _, v := range d.GetFieldViolations() {
			text += " " + v.GetField()
		}
		return text
	case *errdetails.ErrorInfo:
		return fmt.Sprintf("ErrorInfo %s %v", d.GetReason(), d.GetMetadata())
	default:
		return fmt.Sprintf("%T", d)
	}
}

func TestGetRefuses(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	for _, test := range []struct {
		req  *rdmadv1.GetSettingsRequest
		code codes.Code
	}{
		{&rdmadv1.GetSettingsRequest{Scope: "nowhere"}, codes.InvalidArgument},
		{&rdmadv1.GetSettingsRequest{Scope: "connection/9"}, codes.NotFound},
		{&rdmadv1.GetSettingsRequest{Keys: []string{"inline.send"}}, codes.InvalidArgument},
		{&rdmadv1.GetSettingsRequest{Keys: []string{""}}, codes.InvalidArgument},
	} {
		if _, err := c.GetSettings(t.Context(), test.req); status.Code(err) != test.code {
			t.Errorf("%v: %v, want %s", test.req, err, test.code)
		}
	}
}

// TestFieldsOfTheFutureAreRefused: a newer client may ask for something that
// this rdmad would otherwise leave out in silence.
func TestFieldsOfTheFutureAreRefused(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	future := protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
	spoil := func(m proto.Message) { m.ProtoReflect().SetUnknown(future) }
	extensions := rdmadv1.NewExtensionServiceClient(b.client)
	for name, try := range map[string]func() error{
		"SetSettingsRequest": func() error {
			m := request(t, `{"settings":{"inline":{"send_max":1024}}}`)
			spoil(m)
			_, err := c.SetSettings(t.Context(), m)
			return err
		},
		"InlineSettings": func() error {
			m := request(t, `{"settings":{"inline":{"send_max":1024}}}`)
			spoil(m.Settings.Inline)
			_, err := c.SetSettings(t.Context(), m)
			return err
		},
		"CreditsSettings": func() error {
			in := &rdmadv1.CreditsSettings{Max: new(uint32(7))}
			spoil(in)
			_, err := c.ImportSettings(t.Context(), &rdmadv1.ImportSettingsRequest{Scopes: []*rdmadv1.ScopeSettings{
				{Scope: "global"}, {Scope: "listener/nfs", Settings: &rdmadv1.Settings{Credits: in}},
			}})
			return err
		},
		"RollbackSettingsRequest": func() error {
			m := &rdmadv1.RollbackSettingsRequest{}
			spoil(m)
			_, err := c.RollbackSettings(t.Context(), m)
			return err
		},
		"EnableExtensionsRequest": func() error {
			m := &rdmadv1.EnableExtensionsRequest{Names: []string{"msgp"}}
			spoil(m)
			_, err := extensions.EnableExtensions(t.Context(), m)
			return err
		},
	} {
		err := try()
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name+": holds something") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.plane.Applied() != 0 {
		t.Errorf("applied %d times", b.plane.Applied())
	}
}

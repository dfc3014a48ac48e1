package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// chunk is a request to set ddp.min_chunk.
func chunk(value uint32) *rdmadv1.SetSettingsRequest {
	return &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Ddp: &rdmadv1.DdpSettings{MinChunk: &value}}, Comment: "because"}
}

func TestHistoryAndRollback(t *testing.T) {
	c := rdmadv1.NewSettingsServiceClient(start(t, smallPlane(), nil, 16).client)
	ctx := t.Context()
	for _, v := range []uint32{100, 200, 300} {
		if _, err := c.SetSettings(ctx, chunk(v)); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.ListRevisions(ctx, &rdmadv1.ListRevisionsRequest{PageSize: 2})
	if err != nil || len(page.GetRevisions()) != 2 || page.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", page, err)
	}
	r := page.GetRevisions()[0]
	want := &rdmadv1.SettingChange{Scope: "global", Key: "ddp.min_chunk", Before: "200", After: "300"}
	if r.GetRevision() != 3 || r.GetKind() != rdmadv1.Revision_SET || r.GetState() != rdmadv1.Revision_KEPT || r.GetScope() != "global" ||
		r.GetComment() != "because" || r.GetActor() == "" || r.GetTime() == nil || len(r.GetChanges()) != 1 || !proto.Equal(r.GetChanges()[0], want) {
		t.Errorf("newest %v", r)
	}
	page, err = c.ListRevisions(ctx, &rdmadv1.ListRevisionsRequest{PageSize: 2, PageToken: page.GetNextPageToken()})
	if err != nil || len(page.GetRevisions()) != 1 || page.GetRevisions()[0].GetRevision() != 1 || page.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", page, err)
	}
	dry, err := c.RollbackSettings(ctx, &rdmadv1.RollbackSettingsRequest{Revision: 1, DryRun: true})
	if err != nil || dry.GetRevision() != 3 || len(dry.GetChanges()) != 1 || dry.GetChanges()[0].GetAfter() != "100" {
		t.Errorf("dry run %v, %v", dry, err)
	}
	back, err := c.RollbackSettings(ctx, &rdmadv1.RollbackSettingsRequest{Revision: 1})
	if err != nil || back.GetRevision() != 4 || len(back.GetEffects()) != 2 {
		t.Errorf("%v, %v", back, err)
	}
	got, err := c.GetSettings(ctx, &rdmadv1.GetSettingsRequest{Keys: []string{"ddp.min_chunk"}})
	if err != nil || got.GetSettings().GetDdp().GetMinChunk() != 100 {
		t.Errorf("%v, %v", got, err)
	}
	stale := uint32(2)
	for what, r := range map[string]struct {
		req  *rdmadv1.RollbackSettingsRequest
		code codes.Code
	}{
		"yet to come": {&rdmadv1.RollbackSettingsRequest{Revision: 9}, codes.NotFound},
		"stale":       {&rdmadv1.RollbackSettingsRequest{Revision: 1, ExpectedRevision: &stale}, codes.Aborted},
	} {
		if _, err := c.RollbackSettings(ctx, r.req); status.Code(err) != r.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.ListRevisions(ctx, &rdmadv1.ListRevisionsRequest{PageToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("bad token: %v", err)
	}
}

func TestConfirm(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	ctx := t.Context()
	req := chunk(100)
	req.ConfirmWithin = durationpb.New(time.Hour)
	set, err := c.SetSettings(ctx, req)
	if err != nil || set.GetConfirmDeadline().AsTime().Before(time.Now().Add(time.Minute)) {
		t.Fatalf("%v, %v", set, err)
	}
	st, err := rdmadv1.NewStatusServiceClient(b.client).GetStatus(ctx, &rdmadv1.GetStatusRequest{})
	if err != nil || st.GetUnconfirmedRevision() != 1 || st.GetConfirmDeadline() == nil {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := c.SetSettings(ctx, chunk(200)); status.Code(err) != codes.FailedPrecondition || detail(status.Convert(err)) == "" {
		t.Errorf("meanwhile: %v", err)
	}
	if _, err := c.ConfirmSettings(ctx, &rdmadv1.ConfirmSettingsRequest{Revision: 7}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another: %v", err)
	}
	if res, err := c.ConfirmSettings(ctx, &rdmadv1.ConfirmSettingsRequest{}); err != nil || res.GetRevision() != 1 {
		t.Errorf("%v, %v", res, err)
	}
	if _, err := c.ConfirmSettings(ctx, &rdmadv1.ConfirmSettingsRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("twice: %v", err)
	}
	req = chunk(100)
	req.ConfirmWithin = durationpb.New(time.Millisecond)
	if _, err := c.SetSettings(ctx, req); status.Code(err) != codes.InvalidArgument {
		t.Errorf("too short: %v", err)
	}
}

func TestWatchSettings(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewSettingsServiceClient(b.client)
	stream := have(c.WatchSettings(t.Context(), &rdmadv1.WatchSettingsRequest{}))(t)
	if _, err := stream.Header(); err != nil { // from now on nothing is missed
		t.Fatal(err)
	}
	req := chunk(100)
	req.ConfirmWithin = durationpb.New(time.Hour)
	if _, err := c.SetSettings(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ConfirmSettings(t.Context(), &rdmadv1.ConfirmSettingsRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []rdmadv1.Revision_State{rdmadv1.Revision_UNCONFIRMED, rdmadv1.Revision_KEPT} {
		res, err := stream.Recv()
		if err != nil || res.GetRevision().GetRevision() != 1 || res.GetRevision().GetState() != want {
			t.Fatalf("%v, %v", res, err)
		}
	}
}

func TestExportAndImport(t *testing.T) {
	c := rdmadv1.NewSettingsServiceClient(start(t, smallPlane(), nil, 16).client)
	ctx := t.Context()
	for scope, v := range map[string]uint32{"": 100, "listener/nfs": 200, "peer/10.0.0.0/8": 300} {
		req := chunk(v)
		req.Scope = scope
		if _, err := c.SetSettings(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	export, err := c.ExportSettings(ctx, &rdmadv1.ExportSettingsRequest{})
	if err != nil || len(export.GetScopes()) != 3 || export.GetScopes()[0].GetScope() != "global" || export.GetRevision() != 3 ||
		export.GetBase().GetInline().GetSendMax() != 4096 {
		t.Fatalf("%v, %v", export, err)
	}
	other := rdmadv1.NewSettingsServiceClient(start(t, smallPlane(), nil, 16).client)
	res, err := other.ImportSettings(ctx, &rdmadv1.ImportSettingsRequest{Scopes: export.GetScopes(), Base: export.GetBase()})
	if err != nil || res.GetRevision() != 1 || len(res.GetChanges()) != 3 || len(res.GetEffects()) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	again := have(other.ExportSettings(ctx, &rdmadv1.ExportSettingsRequest{}))(t)
	again.Revision = export.GetRevision()
	if !proto.Equal(again, export) {
		t.Errorf("got  %v\nwant %v", again, export)
	}
	bad := uint32(5)
	if _, err := other.ImportSettings(ctx, &rdmadv1.ImportSettingsRequest{Scopes: []*rdmadv1.ScopeSettings{
		{Scope: "global", Settings: &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{SendMax: &bad}}},
	}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a value out of range: %v", err)
	}
	if _, err := other.ImportSettings(ctx, &rdmadv1.ImportSettingsRequest{Scopes: []*rdmadv1.ScopeSettings{{Scope: "connection/1"}}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a connection's scope: %v", err)
	}
}

func TestExplain(t *testing.T) {
	c := rdmadv1.NewSettingsServiceClient(start(t, smallPlane(), nil, 16).client)
	ctx := t.Context()
	req := chunk(200)
	req.Scope = "listener/nfs"
	if _, err := c.SetSettings(ctx, req); err != nil {
		t.Fatal(err)
	}
	res, err := c.ExplainSetting(ctx, &rdmadv1.ExplainSettingRequest{Key: "ddp.min_chunk", Scope: "connection/1"})
	if err != nil || len(res.GetCandidates()) != 2 || res.GetCandidates()[0].GetSource() != "default" ||
		res.GetValue().GetValue() != "200" || res.GetValue().GetSource() != "listener/nfs" || res.GetValue().GetRevision() != 1 ||
		res.GetSummary() == "" || res.GetAllowed() != "0 to 1048576 bytes" || res.GetTakesEffect() != "at once" {
		t.Errorf("%v, %v", res, err)
	}
	for key, code := range map[string]codes.Code{"ddp": codes.InvalidArgument, "": codes.InvalidArgument} {
		if _, err := c.ExplainSetting(ctx, &rdmadv1.ExplainSettingRequest{Key: key}); status.Code(err) != code {
			t.Errorf("%q: %v", key, err)
		}
	}
	if _, err := c.ExplainSetting(ctx, &rdmadv1.ExplainSettingRequest{Key: "ddp.min_chunk", Scope: "connection/9"}); status.Code(err) != codes.NotFound {
		t.Errorf("no such scope: %v", err)
	}
}

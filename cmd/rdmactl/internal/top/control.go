package top

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// control is what the view asks of rdmad. Each method waits for the answer,
// which is the message that it returns; they run beside the view.
type control interface {
	// detail is everything about a connection.
	detail(id string) detail
	// settings in force at a scope.
	settings(scope string) (*rdmadv1.GetSettingsResponse, error)
	// about a setting at a scope.
	about(key, scope string) (*rdmadv1.ExplainSettingResponse, error)
	// set changes settings, or says what that would do.
	set(*rdmadv1.SetSettingsRequest) (*rdmadv1.SetSettingsResponse, error)
	// end ends a connection.
	end(id string, how ending) error
}

// detail is the answer about a connection.
type detail struct {
	id       string
	conn     *rdmadv1.GetConnectionResponse
	settings *rdmadv1.GetSettingsResponse
	err      error
}

// ending is a way for a connection to end.
type ending int

const (
	drain ending = iota // calls in flight finish first
	cut
)

// drainWithin bounds how long calls in flight may take.
const drainWithin = 30 * time.Second

// remote asks by gRPC.
type remote struct {
	ctx         context.Context // the view's
	timeout     time.Duration
	connections rdmadv1.ConnectionServiceClient
	service     rdmadv1.SettingsServiceClient
}

func newRemote(ctx context.Context, o *Options) *remote {
	return &remote{ctx, o.Timeout, rdmadv1.NewConnectionServiceClient(o.Conn), rdmadv1.NewSettingsServiceClient(o.Conn)}
}

// ask makes a request that may take so long, beside the timeout.
func ask[Q, R any](r *remote, method func(context.Context, Q, ...grpc.CallOption) (R, error), req Q, takes time.Duration) (R, error) {
	ctx, cancel := context.WithTimeout(r.ctx, takes+r.timeout)
	defer cancel()
	return method(ctx, req)
}

func (r *remote) detail(id string) detail {
	d := detail{id: id}
	if d.conn, d.err = ask(r, r.connections.GetConnection, &rdmadv1.GetConnectionRequest{Id: id}, 0); d.err == nil {
		d.settings, d.err = r.settings("connection/" + id)
	}
	return d
}

func (r *remote) settings(scope string) (*rdmadv1.GetSettingsResponse, error) {
	return ask(r, r.service.GetSettings, &rdmadv1.GetSettingsRequest{Scope: scope}, 0)
}

func (r *remote) about(key, scope string) (*rdmadv1.ExplainSettingResponse, error) {
	return ask(r, r.service.ExplainSetting, &rdmadv1.ExplainSettingRequest{Key: key, Scope: scope}, 0)
}

func (r *remote) set(req *rdmadv1.SetSettingsRequest) (*rdmadv1.SetSettingsResponse, error) {
	return ask(r, r.service.SetSettings, req, 0)
}

func (r *remote) end(id string, how ending) (err error) {
	if how == cut {
		_, err = ask(r, r.connections.CloseConnection, &rdmadv1.CloseConnectionRequest{Id: id}, 0)
	} else {
		_, err = ask(r, r.connections.DrainConnection, &rdmadv1.DrainConnectionRequest{Id: id, Deadline: durationpb.New(drainWithin)}, drainWithin)
	}
	return err
}

package grpcapi

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

const (
	defaultProvider = "softiwarp"
	maxEndpoints    = 1000 // of one answer
)

// page makes messages of the infos that a request asks for, and the token of the
// page after.
func page[S spec.Named, L any, M proto.Message](req pageRequest, what string, set manager.Set[S, L], message func(*manager.Info[S, L]) M) (out []M, next string, err error) {
	type info = manager.Info[S, L]
	return pageOf(set.List(), req, maxEndpoints, what, func(i info) string { return i.Spec.Called() }, func(i info) M { return message(&i) })
}

// find looks a name up.
func find[S spec.Named, L any](what string, set manager.Set[S, L], name string) (*manager.Info[S, L], error) {
	all := set.List()
	i := slices.IndexFunc(all, func(i manager.Info[S, L]) bool { return i.Spec.Called() == name })
	if i < 0 {
		none := &manager.NotFoundError{What: what, Name: name}
		for j := range all {
			none.Known = append(none.Known, all[j].Spec.Called())
		}
		return nil, none
	}
	return &all[i], nil
}

// add adds what a request says to what want has already, and makes a message of it.
func add[S spec.Named, L, M any](ctx context.Context, what string, set manager.Set[S, L], req proto.Message, want S, message func(*manager.Info[S, L]) M) (m M, err error) {
	if err := specproto.Read(req, &want); err != nil {
		return m, err
	}
	info, err := set.Add(ctx, want)
	if err != nil {
		return m, err
	}
	audit.Note(ctx, "", auditText(what, &info.Spec), 0)
	return message(&info), nil
}

// updating is a request to change something.
type updating interface {
	proto.Message
	GetName() string
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetUnset() []string
	GetDeadline() *durationpb.Duration
}

// update changes the fields of a specification that the mask of a request names, or that the
// request has. It makes a message of the result.
func update[S spec.Named, L, M any](ctx context.Context, what string, set manager.Set[S, L], req updating, end bool, message func(*manager.Info[S, L]) M) (m M, ended int, err error) {
	var given S
	if err := specproto.Read(req, &given); err != nil {
		return m, 0, err
	}
	old, err := find(what, set, req.GetName())
	if err != nil {
		return m, 0, err
	}
	fields := changeable(req, &old.Spec)
	change, err := fields.named("update_mask", req.GetUpdateMask().GetPaths())
	if err != nil {
		return m, 0, err
	}
	unset, err := fields.named("unset", req.GetUnset())
	if err != nil {
		return m, 0, err
	}
	if len(change) == 0 {
		change = fields.given(req)
	}
	if len(change)+len(req.GetUnset()) == 0 {
		return m, 0, invalidField("update_mask", "nothing to change")
	}
	o := manager.UpdateOptions{EndDenied: end, Drain: drainTime(req.GetDeadline())}
	if len(req.GetUnset()) > 0 {
		o.Unset = unset.has
	}
	updated, ended, err := set.Update(ctx, req.GetName(), func(s *S) { spec.Copy(s, &given, change.has) }, o)
	if err != nil {
		return m, 0, err
	}
	audit.Note(ctx, auditText(what, &updated.Before), auditText(what, &updated.Spec), 0)
	return message(&updated.Info), ended, nil
}

// removal is a request to remove something.
type removal interface {
	GetName() string
	GetDeadline() *durationpb.Duration
}

func remove[S spec.Named, L any](ctx context.Context, what string, set manager.Set[S, L], req removal) (drained, cut uint32, err error) {
	r, err := set.Remove(ctx, req.GetName(), drainTime(req.GetDeadline()))
	if err != nil {
		return 0, 0, err
	}
	audit.Note(ctx, auditText(what, &r.Before), "", 0)
	return uint32(r.Drained), uint32(r.Cut), nil
}

func drainTime(deadline *durationpb.Duration) time.Duration {
	if deadline == nil {
		return defaultDrain
	}
	return deadline.AsDuration()
}

// auditText is what the audit log shows.
func auditText[S spec.Named](what string, s *S) string {
	return what + " " + spec.String(s)
}

package grpcapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// domain of google.rpc.ErrorInfo.
const domain = "rdmad.v1"

// toStatus turns a native error into a gRPC status; what it doesn't know is
// internal.
func toStatus(err error) error {
	var (
		invalid *settings.InvalidError
		stale   *settings.StaleError
		limit   *settings.LimitError
		pending *desired.PendingError
	)
	if _, done := status.FromError(err); done {
		return err // nil too
	}
	switch {
	case errors.As(err, new(configfile.Errors)):
		return mistakesOf(err)
	case errors.As(err, &invalid):
		return badRequest(messages(invalid.Violations, violation))
	case errors.As(err, &stale):
		return withInfo(codes.Aborted, err, rdmadv1.ErrorReason_ERROR_REASON_STALE_REVISION,
			"current_revision", strconv.FormatUint(uint64(stale.Current), 10))
	case errors.As(err, &limit):
		return withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT,
			"limit", strconv.FormatUint(limit.Limit, 10))
	case errors.As(err, &pending):
		return withInfo(codes.FailedPrecondition, err, rdmadv1.ErrorReason_ERROR_REASON_UNCONFIRMED,
			"revision", strconv.FormatUint(uint64(pending.Revision), 10),
			"confirm_deadline", pending.Deadline.UTC().Format(time.RFC3339), "by_fleet", strconv.FormatBool(pending.Fleet))
	case errors.As(err, new(*desired.NotPendingError)):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, new(*desired.UnknownRevisionError)):
		return status.Error(codes.NotFound, err.Error())
	}
	if st := managerStatus(err); st != nil {
		return st
	}
	switch {
	case errors.Is(err, watch.ErrSlow):
		return withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_SLOW_READER)
	case errors.Is(err, watch.ErrShutdown), errors.Is(err, dataplane.ErrShutdown):
		return status.Error(codes.Unavailable, "rdmad is shutting down")
	case errors.As(err, new(*settings.NotFoundError)), errors.Is(err, dataplane.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the client no longer waits
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Internal, err.Error())
}

// managerStatus turns the errors of listeners and services into statuses; nil
// for others.
func managerStatus(err error) error {
	var (
		several manager.ChangeErrors
		inUse   *manager.InUseError
		address *manager.AddressError
	)
	switch mistakes := mistakesIn(err); {
	case mistakes != nil:
		return badRequest(messages(mistakes, mistake))
	case errors.As(err, &inUse):
		return withInfo(codes.FailedPrecondition, err, rdmadv1.ErrorReason_ERROR_REASON_IN_USE,
			"by", strings.Join(inUse.Listeners, ","))
	case errors.As(err, new(*descriptors.TooFewError)):
		return withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT)
	case errors.As(err, &several):
		return status.Error(codes.FailedPrecondition, joined(several))
	case errors.As(err, new(*dataplane.NoMemoryError)):
		return withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT)
	case errors.As(err, new(*manager.FailedError)), errors.As(err, new(*manager.OpenError)), errors.As(err, new(*manager.NeededError)):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, new(*manager.UnknownError)):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, dataplane.ErrExists), errors.As(err, &address) && address.InUse:
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.As(err, &address):
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return nil
}

// mistakesIn are the mistakes in a specification that an error has.
func mistakesIn(err error) spec.Errors {
	if all, ok := errors.AsType[spec.Errors](err); ok {
		return all
	}
	if one, ok := errors.AsType[*spec.Error](err); ok {
		return spec.Errors{one}
	}
	return nil
}

func mistake(e **spec.Error) *errdetails.BadRequest_FieldViolation {
	return &errdetails.BadRequest_FieldViolation{Field: (*e).Field, Description: (*e).Text}
}

// joined is all reasons in one line.
func joined(all manager.ChangeErrors) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Err.Error()
	}
	return strings.Join(texts, "; ")
}

// invalidField refuses a request for one of its fields.
func invalidField(field, text string) error {
	return toStatus(&settings.InvalidError{Violations: []settings.Violation{{Field: field, Text: text}}})
}

func violation(v *settings.Violation) *errdetails.BadRequest_FieldViolation {
	return &errdetails.BadRequest_FieldViolation{Field: v.Field, Description: v.Text}
}

// badRequest is INVALID_ARGUMENT whose message says it all in one line and
// whose detail says it by field.
func badRequest(fields []*errdetails.BadRequest_FieldViolation) error {
	return violated(codes.InvalidArgument, fields)
}

// violated is badRequest with another code.
func violated(code codes.Code, fields []*errdetails.BadRequest_FieldViolation) error {
	parts := make([]string, len(fields))
	for i, f := range fields {
		parts[i] = f.GetDescription()
		if f.GetField() != "" {
			parts[i] = f.GetField() + ": " + f.GetDescription()
		}
	}
	st := status.New(code, strings.Join(parts, "; "))
	return withDetail(st, &errdetails.BadRequest{FieldViolations: fields})
}

func withInfo(code codes.Code, err error, reason rdmadv1.ErrorReason, metadata ...string) error {
	info := &errdetails.ErrorInfo{Reason: reason.String(), Domain: domain, Metadata: make(map[string]string)}
	for i := 0; i+1 < len(metadata); i += 2 {
		info.Metadata[metadata[i]] = metadata[i+1]
	}
	return withDetail(status.New(code, err.Error()), info)
}

// withDetail adds a detail; without it, should it not marshal, the status
// still says everything in its message.
func withDetail(st *status.Status, detail protoadapt.MessageV1) error {
	if full, err := st.WithDetails(detail); err == nil {
		st = full
	}
	return st.Err()
}

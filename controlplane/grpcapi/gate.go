package grpcapi

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// gate accepts requests that are within the client's rate, whose client has the
// role, and that are well formed. A request that changes something must have no
// unknown fields. The audit log records it before it is carried out, and again
// when it is done or refused.
type gate struct {
	methods   map[string]method
	limiter   *auth.Limiter
	streams   *streams
	validator protovalidate.Validator
	log       *audit.Log // nil for none
}

func (g *gate) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c := g.call(ctx, info.FullMethod)
	if err := g.rate(&c, req); err != nil {
		return nil, err
	}
	err := c.allowed()
	if err == nil {
		err = validate(g.validator, req)
	}
	if err == nil && c.recorded {
		err = known(req)
	}
	if err != nil {
		g.refused(&c, req, err)
		return nil, err
	}
	ctx, r, err := g.begin(ctx, &c, req)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return next(ctx, req)
	}
	var res any
	if gone := ctx.Err(); gone != nil { // its client gave up while the log waited for the disk
		err = status.FromContextError(gone).Err()
	} else {
		res, err = next(ctx, req)
	}
	r.Done(audited(err))
	return res, err
}

// rate refuses a client that sends too many requests. Only some of its refusals
// are recorded: the log has a bound too.
func (g *gate) rate(c *call, req any) error {
	v := g.limiter.Allow(c.client, time.Now())
	if v.OK {
		return nil
	}
	wait := strconv.FormatFloat(math.Ceil(v.Wait.Seconds()*1000)/1000, 'f', -1, 64)
	err := withInfo(codes.ResourceExhausted, errors.New("too many requests; the next one is taken in "+wait+" seconds"),
		rdmadv1.ErrorReason_ERROR_REASON_RATE, "retry_after_seconds", wait)
	if v.Tell {
		g.refused(c, req, err)
	}
	return err
}

// begin records an accepted request; the request is nil if there is nothing to
// record.
func (g *gate) begin(ctx context.Context, c *call, req any) (context.Context, *audit.Request, error) {
	if g.log == nil || !c.recorded {
		return ctx, nil, nil
	}
	ctx, r, err := g.log.Begin(ctx, c.entry(req))
	if err != nil {
		return ctx, nil, status.Errorf(codes.Internal, "nothing was changed: the audit log can't be written: %v", err)
	}
	return ctx, r, nil
}

// refused records a request that is not let in.
func (g *gate) refused(c *call, req any, why error) {
	if g.log == nil || !c.recorded {
		return
	}
	e := c.entry(req)
	e.Outcome, e.Reason = audited(why)
	g.log.Refused(e)
}

// entry is the log's entry for a request; req is nil before it is known.
func (c *call) entry(req any) audit.Entry {
	e := audit.Entry{Actor: c.client.Name, Role: c.client.Role.String(), Origin: c.client.Origin, Action: c.action}
	if m, ok := req.(proto.Message); ok {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			text = []byte(strconv.Quote(err.Error()))
		}
		e.Request = string(text)
	}
	return e
}

// audited is how the log says what became of a request.
func audited(err error) (outcome, reason string) {
	st := statusOf(err)
	if st.Code() == codes.OK {
		return audit.OK, ""
	}
	return code.Code(st.Code()).String(), st.Message()
}

// statusOf is the status that gRPC makes of a handler's error.
func statusOf(err error) *status.Status {
	if st, ok := status.FromError(err); ok {
		return st
	}
	return status.FromContextError(err)
}

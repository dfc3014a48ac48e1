package grpcapi

import (
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// validate refuses a request that breaks the rules written in the .proto
// files.
func validate(v protovalidate.Validator, req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "request is a %T", req)
	}
	err := v.Validate(m)
	var broken *protovalidate.ValidationError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &broken):
		return status.Errorf(codes.Internal, "request validation: %v", err)
	}
	fields := make([]*errdetails.BadRequest_FieldViolation, len(broken.Violations))
	for i, violation := range broken.Violations {
		fields[i] = &errdetails.BadRequest_FieldViolation{
			Field:       strings.TrimPrefix(protovalidate.FieldPathString(violation.Proto.GetField()), "settings."), // for settings, the dotted name
			Description: describe(violation),
			Reason:      violation.Proto.GetRuleId(),
		}
	}
	return badRequest(fields)
}

// known refuses a request that says something this rdmad doesn't know: half
// of what a newer client wants is not what it wants.
func known(req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil // validate says so
	}
	if name := unknownField(m.ProtoReflect()); name != "" {
		return invalidField(name, "holds something that this rdmad doesn't know; is the client newer?")
	}
	return nil
}

// unknownField finds a message within m that has fields this rdmad doesn't
// know; "" when there is none.
func unknownField(m protoreflect.Message) (found string) {
	if len(m.GetUnknown()) > 0 {
		return string(m.Descriptor().Name())
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Message() == nil || fd.IsMap(): // requests have no maps
		case fd.IsList():
			for i := 0; i < v.List().Len() && found == ""; i++ {
				found = unknownField(v.List().Get(i).Message())
			}
		default:
			found = unknownField(v.Message())
		}
		return found == ""
	})
	return found
}

// describe is the rule's sentence, with the value when it is short enough to
// be repeated.
func describe(v *protovalidate.Violation) string {
	text := v.Proto.GetMessage()
	if v.FieldValue.IsValid() {
		if n, ok := v.FieldValue.Interface().(uint32); ok {
			return fmt.Sprintf("%s (is %d)", text, n)
		}
	}
	return text
}

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
			Field:       fieldName(violation),
			Description: describe(violation),
			Reason:      violation.Proto.GetRuleId(),
		}
	}
	return badRequest(fields)
}

// fieldName is the field's path, which for settings is the dotted name.
func fieldName(v *protovalidate.Violation) string {
	return strings.TrimPrefix(protovalidate.FieldPathString(v.Proto.GetField()), "settings.")
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

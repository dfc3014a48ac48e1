package main

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// answer is what a client has to know of a SetSettingsResponse. It looks at
// every effect without keeping it: a message for each of 1,000 connections a
// hundred times per second would be work of the clients, who are elsewhere when
// it matters, on the processors that rdmad is measured on.
type answer struct {
	revision uint32
	effects  int
	refused  *rdmadv1.Effect // the first that isn't APPLIED, or names no connection
	deadline *timestamppb.Timestamp

	unchanged bool
}

// The fields of SetSettingsResponse and Effect.
const (
	answerRevision, answerEffect, answerDeadline, answerUnchanged = 1, 2, 3, 4
	effectConnection, effectOutcome                               = 1, 2
)

var errAnswer = errors.New("not a SetSettingsResponse")

func (a *answer) read(b []byte) error {
	return fields(b, func(field protowire.Number, value uint64, body []byte) error {
		switch field {
		case answerRevision:
			a.revision = uint32(value)
		case answerEffect:
			return a.effect(body)
		case answerDeadline:
			a.deadline = new(timestamppb.Timestamp)
			return proto.Unmarshal(body, a.deadline)
		case answerUnchanged:
			a.unchanged = value != 0
		default:
			return errAnswer
		}
		return nil
	})
}

func (a *answer) effect(b []byte) error {
	a.effects++
	named, applied := false, false
	err := fields(b, func(field protowire.Number, value uint64, body []byte) error {
		switch field {
		case effectConnection:
			named = len(body) > 0
		case effectOutcome:
			applied = value == uint64(rdmadv1.Effect_APPLIED)
		}
		return nil
	})
	if err == nil && a.refused == nil && (!named || !applied) {
		a.refused = new(rdmadv1.Effect)
		err = proto.Unmarshal(b, a.refused)
	}
	return err
}

// fields calls f for each field of a message of varints and bytes.
func fields(b []byte, f func(field protowire.Number, value uint64, body []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errAnswer
		}
		b = b[n:]
		var value uint64
		var body []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(b)
		default:
			return errAnswer
		}
		if n < 0 {
			return errAnswer
		}
		if err := f(number, value, body); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// answerCodec has gRPC read answers.
type answerCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (answerCodec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*answer)
	if !ok {
		return fmt.Errorf("answer into a %T", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return a.read(b.ReadOnlyData())
}

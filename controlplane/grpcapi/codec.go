package grpcapi

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// encoded is a message that is encoded already. Streams may share it.
type encoded []byte

// codec is gRPC's for protobuf, which also takes encoded messages.
type codec struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(m any) (mem.BufferSlice, error) {
	if b, ok := m.(encoded); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(m)
}

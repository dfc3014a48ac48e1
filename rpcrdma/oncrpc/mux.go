package oncrpc

import (
	"context"
	"fmt"
)

// Mux is a Handler that dispatches calls by program and version. All handlers must be added
// before the first call. There are few, so they are searched linearly.
type Mux struct {
	programs []muxProgram
}

type muxProgram struct {
	program, version uint32
	handler          Handler
}

// Handle adds the handler of one version of a program. It panics if there is one already.
func (m *Mux) Handle(program, version uint32, h Handler) {
	for _, p := range m.programs {
		if p.program == program && p.version == version {
			panic(fmt.Sprintf("oncrpc: two handlers for program %d version %d", program, version))
		}
	}
	m.programs = append(m.programs, muxProgram{program, version, h})
}

// ServeRPC implements Handler. It answers PROG_UNAVAIL for an unknown program
// and PROG_MISMATCH with the lowest and highest version for an unknown version.
func (m *Mux) ServeRPC(ctx context.Context, call *Call, reply *Reply) error {
	for i := range m.programs {
		p := &m.programs[i]
		if p.program == call.Program && p.version == call.Version {
			return p.handler.ServeRPC(ctx, call, reply)
		}
	}
	return m.unavailable(call.Program)
}

// unavailable returns the error for a program without a handler for the called version.
func (m *Mux) unavailable(program uint32) error {
	low, high := ^uint32(0), uint32(0)
	found := false
	for _, p := range m.programs {
		if p.program == program {
			found = true
			low, high = min(low, p.version), max(high, p.version)
		}
	}
	if !found {
		return errProgUnavail
	}
	return &AcceptError{Stat: ProgMismatch, Low: low, High: high}
}

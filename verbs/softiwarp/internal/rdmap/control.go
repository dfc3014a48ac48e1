package rdmap

import "errors"

// Version is the RDMAP version of RFC 5040.
const Version = 1

const (
	versionShift = 6
	opcodeMask   = 0x0f
)

// Opcode is an RDMAP message type (RFC 5040 §4.1).
type Opcode uint8

// The opcodes; all others are reserved.
const (
	Write Opcode = iota
	ReadRequest
	ReadResponse
	Send
	SendInvalidate
	SendSolicited
	SendSolicitedInvalidate
	Terminate
	numOpcodes
)

var (
	// ErrShort means that the payload ends before the message does.
	ErrShort = errors.New("rdmap: short message")
	// ErrVersion means that the RDMAP version is not 1.
	ErrVersion = errors.New("rdmap: unknown version")
	// ErrOpcode means that the opcode is reserved.
	ErrOpcode = errors.New("rdmap: unknown opcode")
)

// Control returns the control byte of a message with the given opcode.
func Control(op Opcode) uint8 {
	return Version<<versionShift | uint8(op)
}

// DecodeControl decodes a control byte. Reserved bits are ignored.
func DecodeControl(c uint8) (Opcode, error) {
	if c>>versionShift != Version {
		return 0, ErrVersion
	}
	op := Opcode(c & opcodeMask)
	if op >= numOpcodes {
		return 0, ErrOpcode
	}
	return op, nil
}

// Tagged reports whether messages of this opcode use the tagged buffer model.
func (op Opcode) Tagged() bool {
	return op == Write || op == ReadResponse
}

// Invalidates reports whether the message invalidates an STag of the receiver.
func (op Opcode) Invalidates() bool {
	return op == SendInvalidate || op == SendSolicitedInvalidate
}

// SendOpcode returns the opcode of a Send with the given properties.
func SendOpcode(invalidate, solicited bool) Opcode {
	switch {
	case invalidate && solicited:
		return SendSolicitedInvalidate
	case invalidate:
		return SendInvalidate
	case solicited:
		return SendSolicited
	}
	return Send
}

// Package agentwire is the framing between a test and the agent in its guest.
// It carries many commands at once over the one byte stream of a virtio-serial
// port.
//
// A frame is a big-endian header (payload length u32, command id u32, kind u8)
// and the payload. The host chooses the ids and uses each once. For each Start
// the agent sends any number of Stdout and Stderr frames and then one Exit.
// Ready comes once, with id 0, before all other frames.
package agentwire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// MaxPayload is the largest payload of a frame, in bytes.
const MaxPayload = 64 << 10

const headerSize = 9

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames.
const (
	Ready  Kind = iota + 1 // to the host: the guest is up
	Start                  // to the guest: run a command, payload [StartRequest]
	Kill                   // to the guest: kill the command and its children
	Stdout                 // to the host: bytes printed
	Stderr                 // to the host: bytes printed
	Exit                   // to the host: the command ended, payload [ExitStatus]
)

// StartRequest is the payload of Start: the shell script to run.
type StartRequest struct {
	Script string `json:"script"`
}

// ExitStatus is the payload of Exit: how the command ended.
type ExitStatus struct {
	Code  int    `json:"code"`            // as a shell's $?: 128 + signal if killed
	Error string `json:"error,omitempty"` // why it could not be run at all
}

// Frame is one frame. The holder of the frame owns the payload.
type Frame struct {
	ID      uint32
	Kind    Kind
	Payload []byte
}

// Write writes a frame in one call of w.Write. It fails if the payload is
// longer than MaxPayload.
func Write(w io.Writer, f Frame) error {
	if len(f.Payload) > MaxPayload {
		return fmt.Errorf("agentwire: payload of %d bytes is too long", len(f.Payload))
	}
	buf := make([]byte, 0, headerSize+len(f.Payload))
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(f.Payload)))
	buf = binary.BigEndian.AppendUint32(buf, f.ID)
	buf = append(buf, byte(f.Kind))
	buf = append(buf, f.Payload...)
	_, err := w.Write(buf)
	return err
}

// WriteJSON writes a frame whose payload is a StartRequest or an ExitStatus.
func WriteJSON(w io.Writer, id uint32, kind Kind, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("agentwire: %w", err)
	}
	return Write(w, Frame{ID: id, Kind: kind, Payload: payload})
}

// Read reads one frame. The error is io.EOF if the stream ended between frames.
func Read(r io.Reader) (Frame, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	size := binary.BigEndian.Uint32(header[0:])
	f := Frame{ID: binary.BigEndian.Uint32(header[4:]), Kind: Kind(header[8])}
	if size > MaxPayload || f.Kind < Ready || f.Kind > Exit {
		return Frame{}, fmt.Errorf("agentwire: bad frame: kind %d, %d bytes", f.Kind, size)
	}
	f.Payload = make([]byte, size)
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		return Frame{}, fmt.Errorf("agentwire: frame cut off: %w", err)
	}
	return f, nil
}

package agentwire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestRoundTrip(t *testing.T) {
	frames := []Frame{
		{ID: 0, Kind: Ready, Payload: []byte{}},
		{ID: 7, Kind: Stdout, Payload: []byte("text\n")},
		{ID: 1<<32 - 1, Kind: Stderr, Payload: bytes.Repeat([]byte{0xff}, MaxPayload)},
	}
	var stream bytes.Buffer
	for _, f := range frames {
		if err := Write(&stream, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range frames {
		got, err := Read(&stream)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want.ID || got.Kind != want.Kind || !bytes.Equal(got.Payload, want.Payload) {
			t.Errorf("read frame %d kind %d, %d bytes; want %d kind %d, %d bytes", got.ID, got.Kind,
				len(got.Payload), want.ID, want.Kind, len(want.Payload))
		}
	}
	if _, err := Read(&stream); !errors.Is(err, io.EOF) {
		t.Errorf("at the end of the stream: %v, want EOF", err)
	}
}

func TestWriteRefusesLongPayload(t *testing.T) {
	var stream bytes.Buffer
	if err := Write(&stream, Frame{Kind: Stdout, Payload: make([]byte, MaxPayload+1)}); err == nil {
		t.Error("a payload beyond the limit was written")
	}
	if stream.Len() != 0 {
		t.Errorf("%d bytes were written before the refusal", stream.Len())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2, byte(Exit), 'x'})
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0, 2, byte(Exit), 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, byte(Stdout)})
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := Write(&again, frame); err != nil {
			t.Fatalf("a frame that was read can't be written: %v", err)
		}
		if !bytes.HasPrefix(data, again.Bytes()) {
			t.Errorf("frame %+v does not encode to what it was decoded from", frame)
		}
	})
}

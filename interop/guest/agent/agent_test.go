package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseParams(t *testing.T) {
	got, err := parseParams("console=ttyS0 rdmad.share=host:/host rdmad.share=src:/mnt/src rdmad.shell quiet\n")
	if err != nil {
		t.Fatal(err)
	}
	want := params{shares: []share{{"host", "/host"}, {"src", "/mnt/src"}}, shell: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"rdmad.share=host", "rdmad.share=:/host", "rdmad.share=host:host"} {
		if _, err := parseParams(bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestServe talks to an agent over a pipe, as package guest does.
func TestServe(t *testing.T) {
	host, guest := net.Pipe()
	ended := make(chan error)
	go func() {
		ended <- serve(bufio.NewReader(guest), newJobs(&sender{w: guest}, t.TempDir()))
	}()
	expect(t, host, 0, agentwire.Ready, "")
	start := agentwire.StartRequest{Script: "echo one; sleep 1000"}
	if err := agentwire.WriteJSON(host, 1, agentwire.Start, start); err != nil {
		t.Fatal(err)
	}
	expect(t, host, 1, agentwire.Stdout, "one\n")
	start.Script = "echo two >&2; exit 5"
	if err := agentwire.WriteJSON(host, 2, agentwire.Start, start); err != nil {
		t.Fatal(err)
	}
	expect(t, host, 2, agentwire.Stderr, "two\n")
	expect(t, host, 2, agentwire.Exit, `{"code":5}`)
	if err := agentwire.Write(host, agentwire.Frame{ID: 1, Kind: agentwire.Kill}); err != nil {
		t.Fatal(err)
	}
	expect(t, host, 1, agentwire.Exit, `{"code":137}`)
	if err := agentwire.Write(host, agentwire.Frame{ID: 3, Kind: agentwire.Start, Payload: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	expect(t, host, 3, agentwire.Exit, `{"code":-1,"error":"unexpected end of JSON input"}`)
	host.Close()
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("serve ended with %v, want EOF", err)
	}
}

// TestOutputIsWhole fills a pipe and lets its read deadline pass, while nobody
// reads the pipe and its other end stays open. copy must still send everything.
func TestOutputIsWhole(t *testing.T) {
	pipe, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	text := strings.Repeat("x", 65536)
	if _, err := end.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := pipe.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	stream{&sender{w: &sent}, 1, agentwire.Stdout}.copy(pipe)
	expect(t, &sent, 1, agentwire.Stdout, text)
	if sent.Len() > 0 {
		t.Errorf("%d bytes more were sent", sent.Len())
	}
}

func expect(t *testing.T, r io.Reader, id uint32, kind agentwire.Kind, payload string) {
	t.Helper()
	f, err := agentwire.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	if f.ID != id || f.Kind != kind || string(f.Payload) != payload {
		t.Fatalf("got id %d kind %d %q, want id %d kind %d %q", f.ID, f.Kind, f.Payload, id, kind, payload)
	}
}

func TestStreamSplitsLongOutput(t *testing.T) {
	r, w := io.Pipe()
	text := strings.Repeat("x", agentwire.MaxPayload+1)
	go func() {
		n, err := stream{&sender{w: w}, 1, agentwire.Stdout}.Write([]byte(text))
		if n != len(text) {
			err = io.ErrShortWrite
		}
		w.CloseWithError(err)
	}()
	expect(t, r, 1, agentwire.Stdout, text[:agentwire.MaxPayload])
	expect(t, r, 1, agentwire.Stdout, "x")
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the output: %v", err)
	}
}

package echo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// memory hands one buffer out and back.
type memory struct {
	data []byte
	err  error
	out  int
}

func (m *memory) Alloc(_ context.Context, n int) (oncrpc.Buffer, error) {
	if m.err != nil {
		return nil, m.err
	}
	if cap(m.data) < n {
		m.data = make([]byte, n+100)
	}
	m.out++
	return m, nil
}
func (m *memory) Bytes() []byte { return m.data }
func (m *memory) Release()      { m.out-- }

// call serves one procedure and gives the results as they go over the wire.
func call(t testing.TB, proc uint32, args oncrpc.Payload) ([]byte, error) {
	t.Helper()
	mem := &memory{data: bytes.Repeat([]byte{0xee}, 64)}
	reply := oncrpc.Reply{Mem: mem}
	c := oncrpc.Call{XID: 7, Program: Program, Version: Version, Procedure: proc, Args: args}
	if err := oncrpc.Serve(t.Context(), New(), &c, &reply); err != nil {
		if mem.out != 0 || !bytes.Equal(reply.Stream, oncrpc.AppendError(nil, 7, err)) {
			t.Errorf("%d buffers out, reply %x", mem.out, reply.Stream)
		}
		return nil, err
	}
	results := reply.Stream[oncrpc.AcceptedReplySize:]
	for _, item := range reply.Items { // there is at most one, at the end
		if item.Pos != len(reply.Stream) {
			t.Errorf("item at %d of a stream of %d bytes", item.Pos, len(reply.Stream))
		}
		results = xdr.AppendFixed(results, item.Buf.Bytes()[:item.Len])
	}
	reply.Release()
	if mem.out != 0 {
		t.Errorf("%d buffers out", mem.out)
	}
	return results, nil
}

// inline and apart are the two ways in which an opaque argument comes.
func inline(data []byte) oncrpc.Payload {
	return oncrpc.Payload{Stream: xdr.AppendOpaque(nil, data)}
}

func apart(data []byte) oncrpc.Payload {
	return oncrpc.Payload{Stream: xdr.AppendUint32(nil, uint32(len(data))), Items: []oncrpc.Item{{Pos: 4, Data: data}}}
}

// inParts is apart in parts of the given lengths and one of the rest.
func inParts(data []byte, lengths ...int) oncrpc.Payload {
	p := apart(data)
	it := &p.Items[0]
	it.Data = nil
	for _, n := range lengths {
		n = min(n, len(data))
		it.More = append(it.More, data[:n:n])
		data = data[n:]
	}
	it.More = append(it.More, data)
	it.Data, it.More = it.More[0], it.More[1:]
	return p
}

// want is how READ fills n bytes.
func want(n int) []byte {
	b := make([]byte, xdr.Padded(n))
	for off := 0; off < len(b); off += 4 {
		binary.BigEndian.PutUint32(b[off:], uint32(off))
	}
	return b[:n]
}

var sizes = []int{0, 1, 2, 3, 4, 5, 4095, 4096, 4097, 1 << 20, MaxPayload}

func TestNull(t *testing.T) {
	if results, err := call(t, ProcNull, oncrpc.Payload{}); err != nil || len(results) != 0 {
		t.Errorf("%x, %v", results, err)
	}
}

func TestEcho(t *testing.T) {
	for _, n := range sizes {
		for _, args := range []oncrpc.Payload{inline(want(n)), apart(want(n)), inParts(want(n), 2, 4096, 4096)} {
			if results, err := call(t, ProcEcho, args); err != nil || !bytes.Equal(results, xdr.AppendOpaque(nil, want(n))) {
				t.Errorf("%d bytes, %d items: %d bytes, %v", n, len(args.Items), len(results), err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	for _, n := range sizes {
		results, err := call(t, ProcRead, oncrpc.Payload{Stream: xdr.AppendUint32(nil, uint32(n))})
		if err != nil || !bytes.Equal(results, xdr.AppendOpaque(nil, want(n))) {
			t.Errorf("%d bytes: %d bytes, %v", n, len(results), err)
		}
	}
}

func TestReadWithoutMemory(t *testing.T) {
	none := errors.New("none left")
	reply := oncrpc.Reply{Mem: &memory{err: none}}
	c := oncrpc.Call{Program: Program, Version: Version, Procedure: ProcRead, Args: oncrpc.Payload{Stream: xdr.AppendUint32(nil, 9)}}
	if err := New().ServeRPC(t.Context(), &c, &reply); !errors.Is(err, none) {
		t.Errorf("%v, want %v", err, none)
	}
}

func TestWrite(t *testing.T) {
	for _, n := range sizes {
		for _, args := range []oncrpc.Payload{inline(want(n)), apart(want(n)), inParts(want(n), 2, 4096, 4096)} {
			sum := crc32.Checksum(want(n), crc32.MakeTable(crc32.Castagnoli))
			wanted := xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), sum)
			if results, err := call(t, ProcWrite, args); err != nil || !bytes.Equal(results, wanted) {
				t.Errorf("%d bytes, %d items: %x, %v; want %x", n, len(args.Items), results, err, wanted)
			}
		}
	}
}

func TestBadCalls(t *testing.T) {
	word := func(v uint32) []byte { return xdr.AppendUint32(nil, v) }
	item := func(pos int) []oncrpc.Item { return []oncrpc.Item{{Pos: pos, Data: []byte("data")}} }
	for _, c := range []struct {
		name string
		proc uint32
		args oncrpc.Payload
		want error
	}{
		{"NULL with arguments", ProcNull, oncrpc.Payload{Stream: word(0)}, errGarbageArgs},
		{"NULL with an item", ProcNull, oncrpc.Payload{Items: item(0)}, errGarbageArgs},
		{"ECHO of nothing", ProcEcho, oncrpc.Payload{}, errGarbageArgs},
		{"ECHO cut off", ProcEcho, oncrpc.Payload{Stream: word(1)}, errGarbageArgs},
		{"ECHO of too much", ProcEcho, inline(make([]byte, MaxPayload+1)), errGarbageArgs},
		{"ECHO with bytes left over", ProcEcho, oncrpc.Payload{Stream: append(word(0), 0, 0, 0, 0)}, errGarbageArgs},
		{"WRITE of too much", ProcWrite, apart(make([]byte, MaxPayload+1)), errGarbageArgs},
		{"WRITE with an item of another length", ProcWrite, oncrpc.Payload{Stream: word(9), Items: item(4)}, errGarbageArgs},
		{"WRITE with an item elsewhere", ProcWrite, oncrpc.Payload{Stream: word(0), Items: item(0)}, errGarbageArgs},
		{"WRITE with two items", ProcWrite, oncrpc.Payload{Stream: word(4), Items: append(item(4), item(4)...)}, errGarbageArgs},
		{"READ of no size", ProcRead, oncrpc.Payload{}, errGarbageArgs},
		{"READ of too much", ProcRead, oncrpc.Payload{Stream: word(MaxPayload + 1)}, errGarbageArgs},
		{"READ of 4 GiB", ProcRead, oncrpc.Payload{Stream: word(1<<32 - 1)}, errGarbageArgs},
		{"READ with bytes left over", ProcRead, oncrpc.Payload{Stream: append(word(1), 0)}, errGarbageArgs},
		{"READ with an item", ProcRead, oncrpc.Payload{Stream: word(1), Items: item(4)}, errGarbageArgs},
		{"procedure 4", 4, oncrpc.Payload{}, errProcUnavail},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := call(t, c.proc, c.args); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if err := New().ServeRPC(t.Context(), &oncrpc.Call{Program: 1, Version: Version}, nil); !errors.Is(err, errProgUnavail) {
		t.Errorf("another program: %v", err)
	}
	if err := New().ServeRPC(t.Context(), &oncrpc.Call{Program: Program, Version: 2}, nil); !errors.Is(err, errProgMismatch) {
		t.Errorf("another version: %v", err)
	}
}

func TestNoAllocations(t *testing.T) {
	mem := &memory{data: make([]byte, 4096)}
	reply := oncrpc.Reply{Stream: make([]byte, 0, 8192), Mem: mem}
	ctx := t.Context()
	for _, c := range []struct {
		name string
		proc uint32
		args oncrpc.Payload
	}{
		{"NULL", ProcNull, oncrpc.Payload{}},
		{"ECHO 4 KiB", ProcEcho, inline(make([]byte, 4096))},
		{"READ 4 KiB", ProcRead, oncrpc.Payload{Stream: xdr.AppendUint32(nil, 4096)}},
		{"WRITE 4 KiB inline", ProcWrite, inline(make([]byte, 4096))},
		{"WRITE 4 KiB apart", ProcWrite, apart(make([]byte, 4096))},
	} {
		call := oncrpc.Call{Program: Program, Version: Version, Procedure: c.proc, Args: c.args}
		var err error
		allocs := testing.AllocsPerRun(100, func() {
			err = oncrpc.Serve(ctx, New(), &call, &reply)
			reply.Release()
		})
		if allocs != 0 || err != nil {
			t.Errorf("%s: %v allocations, want none; %v", c.name, allocs, err)
		}
	}
}

// FuzzServe sends any arguments to any procedure: there is always a reply, and
// never a buffer left out.
func FuzzServe(f *testing.F) {
	f.Add(uint32(ProcNull), []byte{}, []byte{}, 0)
	f.Add(uint32(ProcEcho), xdr.AppendOpaque(nil, []byte("hello")), []byte{}, 0)
	f.Add(uint32(ProcRead), xdr.AppendUint32(nil, 4097), []byte{}, 0)
	f.Add(uint32(ProcWrite), xdr.AppendUint32(nil, 5), []byte("hello"), 4)
	f.Add(uint32(9), []byte{0, 0, 0, 1}, []byte("x"), -1)
	f.Fuzz(func(t *testing.T, proc uint32, stream, data []byte, pos int) {
		args := oncrpc.Payload{Stream: stream}
		if len(data) > 0 {
			args.Items = []oncrpc.Item{{Pos: pos, Data: data}}
		}
		results, err := call(t, proc, args)
		if err != nil {
			if _, ok := errors.AsType[*oncrpc.AcceptError](err); !ok {
				t.Fatalf("error %v", err)
			}
			return
		}
		if proc == ProcEcho && len(data) == 0 && len(results) != len(stream) {
			t.Fatalf("%x comes back as %x", stream, results)
		}
	})
}

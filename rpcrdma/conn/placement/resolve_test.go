package placement

import (
	"errors"
	"math"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestOffences: each way in which an item can be where it can't is told with
// what was wrong and what would have been right.
func TestOffences(t *testing.T) {
	b := Derive(9216) // plain 1024, targets at 1024 and 5120
	s, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	whole := []Received{{Header: 100, Payload: 200, Length: 9216}, {Header: 40, Length: 5120 + 96}}
	item := func(length, off uint32, targets ...uint32) rpcrdma2.Item {
		return rpcrdma2.Item{Length: length, Place: rpcrdma2.TargetBuffer, Offset: off, Targets: targets}
	}
	for name, tc := range map[string]struct {
		group []Received
		items []rpcrdma2.Item
		want  *Error
	}{
		"all":                          {whole, []rpcrdma2.Item{item(3*4096+96, 0, 0, 1, 2, 3)}, nil},
		"offset":                       {whole, []rpcrdma2.Item{item(96, 4000, 1)}, nil},
		"into the next":                {whole, []rpcrdma2.Item{item(100, 4092, 1, 2)}, nil},
		"out of order":                 {whole, []rpcrdma2.Item{item(4096+96, 0, 1, 3), item(4096, 0, 0)}, nil},
		"no such segment":              {whole, []rpcrdma2.Item{item(4, 0, 4)}, &Error{Code: rpcrdma2.BadTarget, Actual: 4, Max: 3, Transmission: 1}},
		"far from any segment":         {whole, []rpcrdma2.Item{item(4, 0, math.MaxUint32)}, &Error{Code: rpcrdma2.BadTarget, Actual: math.MaxUint32, Max: 3, Transmission: 1}},
		"the same twice":               {whole, []rpcrdma2.Item{item(8192, 0, 1, 1)}, &Error{Code: rpcrdma2.BadTarget, Actual: 1, Max: 3}},
		"another item's":               {whole, []rpcrdma2.Item{item(96, 0, 1), item(96, 2048, 1)}, &Error{Code: rpcrdma2.BadTarget, Actual: 1, Max: 3}},
		"offset after the segment":     {whole, []rpcrdma2.Item{item(4, 4096, 0)}, &Error{Code: rpcrdma2.BadOffset, Actual: 4096, Max: 4092}},
		"offset that wraps":            {whole, []rpcrdma2.Item{item(4, math.MaxUint32-3, 0)}, &Error{Code: rpcrdma2.BadOffset, Actual: math.MaxUint32 - 3, Max: 4092}},
		"offset not aligned":           {whole, []rpcrdma2.Item{item(4, 2, 2)}, &Error{Code: rpcrdma2.BadOffset, Actual: 2, Max: 4092, Transmission: 1}},
		"more than came":               {whole, []rpcrdma2.Item{item(100, 0, 3)}, &Error{Code: rpcrdma2.BadTarget, Actual: 3, Max: 3, Transmission: 1}},
		"longer than its segments":     {whole, []rpcrdma2.Item{item(4097, 0, 0)}, &Error{Code: rpcrdma2.BadTarget, Actual: 1, Max: 3, Transmission: 1}},
		"longer than anything":         {whole, []rpcrdma2.Item{item(math.MaxUint32, 0, 0, 1, 2)}, &Error{Code: rpcrdma2.BadTarget, Actual: 3, Max: 3, Transmission: 1}},
		"in no segment":                {whole, []rpcrdma2.Item{item(4, 0)}, &Error{Code: rpcrdma2.BadTarget, Max: 3, Transmission: 1}},
		"a segment for nothing":        {whole, []rpcrdma2.Item{item(4096, 0, 0, 1)}, &Error{Code: rpcrdma2.BadTarget, Actual: 1, Max: 3}},
		"no bytes in a segment":        {whole, []rpcrdma2.Item{item(0, 0, 0)}, &Error{Code: rpcrdma2.BadTarget, Max: 3}},
		"no bytes in none":             {whole, []rpcrdma2.Item{item(0, 0)}, nil},
		"where the payload is":         {[]Received{{Header: 1000, Payload: 28, Length: 9216}}, []rpcrdma2.Item{item(4, 0, 0)}, &Error{Code: rpcrdma2.BadTarget, Max: 1}},
		"after the payload":            {[]Received{{Header: 1000, Payload: 28, Length: 9216}}, []rpcrdma2.Item{item(4, 4, 0)}, nil},
		"payload out of the message":   {[]Received{{Header: 100, Payload: 104, Length: 200}}, nil, &Error{Code: rpcrdma2.BadPayload, Actual: 104, Max: 100}},
		"of the second transmission":   {[]Received{{Header: 100, Length: 100}, {Header: 100, Payload: 4, Length: 100}}, nil, &Error{Code: rpcrdma2.BadPayload, Actual: 4, Transmission: 1}},
		"a transmission that is short": {[]Received{{Header: 100, Length: 100}}, []rpcrdma2.Item{item(4, 0, 1)}, &Error{Code: rpcrdma2.BadTarget, Actual: 1, Max: 1}},
	} {
		var r Resolver
		err := r.Begin(&s, tc.group)
		for i := range tc.items {
			if err == nil {
				_, err = r.Item(nil, &tc.items[i])
			}
		}
		var got *Error
		if errors.As(err, &got) != (tc.want != nil) || (tc.want != nil && *got != *tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	var none Structure
	var r Resolver
	if err := r.Begin(&none, whole); err != nil {
		t.Fatal(err)
	}
	it := item(4, 0, 0)
	if _, err := r.Item(nil, &it); err == nil {
		t.Error("an item in receives without targets")
	}
}

// FuzzResolve: whatever a peer says, what is found lies in what it sent, after
// the payload, and no byte twice.
func FuzzResolve(f *testing.F) {
	req := rpcrdma2.XmtReq{Items: []rpcrdma2.Item{
		{Length: 4096 + 96, Place: rpcrdma2.TargetBuffer, Targets: []uint32{0, 1}},
		{Length: 10, Place: rpcrdma2.TargetBuffer, Offset: 8, Targets: []uint32{2}},
	}, Count: 2}
	buf := Derive(9216)
	f.Add(buf.Append(nil), req.Append(nil), uint16(100), uint16(9216), uint16(5000))
	other := rpcrdma2.Buffer{Length: 64, Groups: []rpcrdma2.BufferGroup{{Count: 4, Length: 16, Flags: rpcrdma2.TargetableFlag}}}
	f.Add(other.Append(nil), req.Append(nil), uint16(0), uint16(64), uint16(64))
	f.Fuzz(func(t *testing.T, structure, body []byte, payload, first, second uint16) {
		var b rpcrdma2.Buffer
		var req rpcrdma2.XmtReq
		if b.Decode(structure) != nil || req.Decode(body) != nil {
			return
		}
		s, err := Read(&b)
		if err != nil {
			return
		}
		group := []Received{{Header: req.Size(), Payload: int(payload), Length: int(first)}, {Header: 40, Length: int(second)}}
		var r Resolver
		if r.Begin(&s, group) != nil {
			return
		}
		var taken [2][math.MaxUint16]bool
		for i := range req.Items {
			spans, err := r.Item(nil, &req.Items[i])
			if err != nil {
				return
			}
			n := 0
			for _, sp := range spans {
				at := &group[sp.Transmission]
				if sp.Len <= 0 || sp.Off < at.Header+at.Payload || sp.Off+sp.Len > at.Length {
					t.Fatalf("%+v of %+v", sp, group)
				}
				n += sp.Len
				for k := sp.Off; k < sp.Off+sp.Len; k++ {
					if taken[sp.Transmission][k] {
						t.Fatalf("byte %d of transmission %d twice", k, sp.Transmission)
					}
					taken[sp.Transmission][k] = true
				}
			}
			if n != int(req.Items[i].Length) {
				t.Fatalf("%d bytes of %d", n, req.Items[i].Length)
			}
		}
	})
}

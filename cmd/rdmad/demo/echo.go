package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// defaultChunk is the default size, in bytes, from which an item moves by RDMA.
const defaultChunk = 4096

// session is a connection and its provider.
type session struct {
	provider rdmacm.Provider
	*rpcrdma.Client
}

// dial connects to one of rdmad's listeners. For results of at least minChunk bytes the client
// offers a write chunk and leaves the choice to rdmad. It expects smaller results inline.
func (d *demo) dial(ctx context.Context, listener string, minChunk uint32) (*session, error) {
	s := rpcrdma.DefaultSettings()
	s.DDPMinChunk = minChunk
	return d.dialWith(ctx, listener, &s)
}

func (d *demo) dialWith(ctx context.Context, listener string, s *rpcrdma.Settings) (*session, error) {
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		return nil, err
	}
	c, err := rpcrdma.Dial(ctx, p, d.daemon.Address("listener "+listener), rpcrdma.DialConfig{Settings: s})
	if err != nil {
		p.Close()
		return nil, err
	}
	return &session{p, c}, nil
}

func (s *session) close() {
	s.Close()
	s.provider.Close()
}

// echo has rdmactl call each procedure of the echo service and check every byte.
func (d *demo) echo(ctx context.Context) error {
	d.title("Call the echo service over RPC-over-RDMA")
	for _, c := range []struct {
		what, op    string
		calls, size int
	}{
		{"NULL", "null", 2000, 0},
		{"ECHO of 1 KiB, inline", "echo", 1000, 1 << 10},
		{"READ of 1 MiB, by RDMA Write", "read", 50, 1 << 20},
		{"WRITE of 1 MiB, by RDMA Read", "write", 50, 1 << 20},
	} {
		var made struct {
			Ops   int
			Rate  float64 `json:"ops_per_second"`
			Bytes float64 `json:"bytes_per_second"`
		}
		err := d.answer(ctx, &made, "bench", d.daemon.Address("listener echo"), "--op", c.op, "--size", strconv.Itoa(c.size), "--count", strconv.Itoa(c.calls))
		if err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		rate := ""
		if c.size >= 1<<20 {
			rate = fmt.Sprintf(", %.0f MB/s", made.Bytes/1e6)
		}
		d.say("%-30s %5d calls, every byte right, %7.1f us each%s", c.what, made.Ops, 1e6/made.Rate, rate)
	}
	return nil
}

// read calls READ of the echo service.
func (s *session) read(ctx context.Context, size int) error {
	buf, err := s.Alloc(ctx, size+3)
	if err != nil {
		return err
	}
	defer buf.Release()
	c := &rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead, Args: xdr.AppendUint32(nil, uint32(size)), MaxReply: 8,
		Results: []rpcrdma.Result{{Buf: buf, Max: size}},
	}
	if err := s.Call(ctx, c); err != nil {
		return err
	}
	dec := xdr.NewDecoder(c.Reply)
	n := dec.Length(size)
	got := buf.Bytes()[:n]
	if c.Results[0].Apart == 0 {
		got = dec.Fixed(n)
	}
	want := make([]byte, size)
	echo.Fill(want)
	if dec.Err() != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came, not the %d asked for", n, size)
	}
	return nil
}

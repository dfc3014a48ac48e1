package connector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// newPadding makes a rig whose target pads its replies.
func newPadding(t *testing.T, p rdmacm.Provider) *rig {
	r := newTargetless(t, p)
	r.d.ApplySettings(dataplane.Update{Resolve: settings(func(s *rpcrdma.Settings) {
		s.Extensions |= rpcrdma.ExtMSGP
		s.InlineSendMax, s.InlineReceiveSize, s.DDPMinChunk = 32<<10, 32<<10, 16<<10
	})}, nil)
	return r
}

// TestPaddedLink: link targets get no write chunk. Clients get them without their padding.
func TestPaddedLink(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		e := newExportOn(newPadding(t, p), Config{})
		for _, n := range []int{1, 511, 512, 513, 2000} {
			name, target := fmt.Sprint(n), strings.Repeat("x", n)
			if err := os.Symlink(target, filepath.Join(e.dir, name)); err != nil {
				t.Fatal(err)
			}
			h, err := e.Lookup(t.Context(), e.root, name)
			if err != nil {
				t.Fatal(err)
			}
			d := e.call(procReadlink, xdr.AppendOpaque(nil, h))
			if d.Bool() {
				d.Fixed(84) // attributes
			}
			if got := d.String(n); d.Err() != nil || got != target || d.Len() != 0 {
				t.Errorf("%d bytes: %d came, %v, %d left", n, len(got), d.Err(), d.Len())
			}
		}
	})
}

// TestPaddedCompound: the results of several operations come without their padding, also after a
// READLINK. A reply with too many of them is refused.
func TestPaddedCompound(t *testing.T) {
	const read, readlink = 25, 27
	data := bytes.Repeat([]byte("data"), 150)
	// COMPOUND with a successful result for each of the operations.
	target := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		d := xdr.NewDecoder(c.Args.Stream)
		d.Opaque(0)
		d.Uint32()
		n := d.Uint32()
		r.Stream = xdr.AppendUint32(xdr.AppendOpaque(xdr.AppendUint32(r.Stream, 0), nil), n)
		for range n {
			op := d.Uint32()
			r.Stream = xdr.AppendUint32(xdr.AppendUint32(r.Stream, op), 0)
			if op == read {
				d.Fixed(16 + 8 + 4)
				r.Stream = xdr.AppendUint32(r.Stream, 1) // end of file
			}
			buf, err := r.Mem.Alloc(ctx, len(data))
			if err != nil {
				return err
			}
			r.Stream = xdr.AppendUint32(r.Stream, uint32(len(data)))
			r.AppendItem(buf, copy(buf.Bytes(), data))
		}
		return nil
	})
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newPadding(t, p)
		cfg := Config{}
		r.listen(target, &cfg)
		r.connect(cfg)
		c := r.dial(rpctcp.ClientConfig{})
		reads := func(n int) (ops []uint32) {
			for range n {
				ops = append(ops, read)
			}
			return ops
		}
		for _, ops := range [][]uint32{{readlink}, {read, readlink, read, readlink}, reads(maxApart), reads(maxApart + 1)} {
			args := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendOpaque(nil, nil), 1), uint32(len(ops)))
			want := xdr.AppendUint32(xdr.AppendUint64(nil, 0), uint32(len(ops)))
			for _, op := range ops {
				args = xdr.AppendUint32(args, op)
				want = xdr.AppendUint32(xdr.AppendUint32(want, op), 0)
				if op == read {
					args = xdr.AppendUint32(append(args, make([]byte, 16+8)...), uint32(len(data)))
					want = xdr.AppendUint32(want, 1)
				}
				want = xdr.AppendOpaque(want, data)
			}
			got, err := c.Call(t.Context(), nfsProgram, 4, 1, args, nil)
			if len(ops) > maxApart {
				if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != oncrpc.SystemErr {
					t.Errorf("%d operations: %d bytes, %v; want SYSTEM_ERR", len(ops), len(got), err)
				}
				continue
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("operations %d: %d bytes, %v; want %d", ops, len(got), err, len(want))
			}
		}
	})
}

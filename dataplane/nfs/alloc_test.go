package nfs

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// fixedMemory gives the same buffer again and again, as a transport's pool
// does in effect.
type fixedMemory struct{ b fixedBuffer }

type fixedBuffer []byte

func (m *fixedMemory) Alloc(context.Context, int) (oncrpc.Buffer, error) { return &m.b, nil }
func (b *fixedBuffer) Bytes() []byte                                     { return *b }
func (b *fixedBuffer) Release()                                          {}

// prepared is a call that can be made again and again.
type prepared struct {
	x     *export
	call  oncrpc.Call
	reply oncrpc.Reply
}

func prepare(t testing.TB, c *client, proc uint32, args io.WriterTo) *prepared {
	var b bytes.Buffer
	_, err := args.WriteTo(&b)
	must(t, err)
	p := &prepared{x: c.x, call: oncrpc.Call{Program: Program, Version: Version, Procedure: proc, Cred: c.cred, Peer: c.peer}}
	p.call.Args.Stream = b.Bytes()
	p.reply.Mem = &fixedMemory{make(fixedBuffer, MaxIO)}
	return p
}

func (p *prepared) do(t testing.TB) {
	p.reply.Stream = p.reply.Stream[:0]
	if err := p.x.ServeRPC(context.Background(), &p.call, &p.reply); err != nil {
		t.Fatal(err)
	}
	if p.reply.Stream[3] != 0 {
		t.Fatalf("status % x", p.reply.Stream[:4])
	}
	p.reply.Release()
}

// hotCalls are those that most of a client's traffic consists of.
func hotCalls(t testing.TB, c *client) map[string]*prepared {
	root := c.root()
	f := c.mkfile(root, "f")
	c.write(f, 0, make([]byte, MaxIO), nfsv3.UNSTABLE)
	return map[string]*prepared{
		"GETATTR":    prepare(t, c, 1, &nfsv3.Getattr3args{Object: fhOf(f)}),
		"LOOKUP":     prepare(t, c, 3, &nfsv3.Lookup3args{What: in(root, "f")}),
		"ACCESS":     prepare(t, c, 4, &nfsv3.Access3args{Object: fhOf(f), Access: 0x3f}),
		"READ 4K":    prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(f), Count: 4096}),
		"READ 1M":    prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(f), Count: MaxIO}),
		"WRITE 4K":   prepare(t, c, 7, &nfsv3.Write3args{File: fhOf(f), Count: 4096, Data: make([]byte, 4096)}),
		"WRITE 1M":   prepare(t, c, 7, &nfsv3.Write3args{File: fhOf(f), Count: MaxIO, Data: make([]byte, MaxIO)}),
		"WRITE sync": prepare(t, c, 7, &nfsv3.Write3args{File: fhOf(f), Count: 4096, Stable: nfsv3.DATA_SYNC, Data: make([]byte, 4096)}),
		"COMMIT":     prepare(t, c, 21, &nfsv3.Commit3args{File: fhOf(f)}),
	}
}

// Calls on the hot path don't allocate.
func TestHotCallsDontAllocate(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	for name, p := range hotCalls(t, c) {
		if got := testing.AllocsPerRun(20, func() { p.do(t) }); got > 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkCalls(b *testing.B) {
	for _, who := range []struct {
		name string
		uid  uint32
	}{{"root", 0}, {"user", 1000}} {
		if !isRoot && who.uid != 0 {
			continue
		}
		x := serve(b, options{})
		must(b, os.Chmod(x.dir, 0o777))
		for name, p := range hotCalls(b, x.as(who.uid, who.uid)) {
			if name == "COMMIT" || name == "WRITE sync" {
				continue // the disk's speed
			}
			b.Run(who.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					p.do(b)
				}
			})
		}
	}
}

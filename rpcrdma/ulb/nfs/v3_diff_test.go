package nfs

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
)

// decoder decodes a body and tells its items.
type decoder func(io.Reader) (items func(size int) []ulb.Item, n int64, err error)

// args3 decodes into an arguments type without items, other than WRITE and
// SYMLINK.
func args3[T any, P interface {
	*T
	io.ReaderFrom
}]() decoder {
	return func(r io.Reader) (func(int) []ulb.Item, int64, error) {
		m := P(new(T))
		n, err := m.ReadFrom(r)
		return func(size int) []ulb.Item {
			switch m := any(m).(type) {
			case *nfsv3.Write3args:
				return []ulb.Item{last(size, m.Data)}
			case *nfsv3.Symlink3args:
				return []ulb.Item{last(size, []byte(m.Symlink.SymlinkData))}
			}
			return nil
		}, n, err
	}
}

func res3[T any](read func(io.Reader) (T, int64, error)) decoder {
	return func(r io.Reader) (func(int) []ulb.Item, int64, error) {
		m, n, err := read(r)
		return func(size int) []ulb.Item {
			switch m := any(m).(type) {
			case *nfsv3.Read3res_NFS3_OK:
				return []ulb.Item{last(size, m.Resok.Data)}
			case *nfsv3.Readlink3res_NFS3_OK:
				return []ulb.Item{last(size, []byte(m.Resok.Data))}
			}
			return nil
		}, n, err
	}
}

// procs3 are the procedures after NULL.
var procs3 = [...]struct{ args, results decoder }{
	1:  {args3[nfsv3.Getattr3args](), res3(nfsv3.ReadGetattr3res)},
	2:  {args3[nfsv3.Setattr3args](), res3(nfsv3.ReadSetattr3res)},
	3:  {args3[nfsv3.Lookup3args](), res3(nfsv3.ReadLookup3res)},
	4:  {args3[nfsv3.Access3args](), res3(nfsv3.ReadAccess3res)},
	5:  {args3[nfsv3.Readlink3args](), res3(nfsv3.ReadReadlink3res)},
	6:  {args3[nfsv3.Read3args](), res3(nfsv3.ReadRead3res)},
	7:  {args3[nfsv3.Write3args](), res3(nfsv3.ReadWrite3res)},
	8:  {args3[nfsv3.Create3args](), res3(nfsv3.ReadCreate3res)},
	9:  {args3[nfsv3.Mkdir3args](), res3(nfsv3.ReadMkdir3res)},
	10: {args3[nfsv3.Symlink3args](), res3(nfsv3.ReadSymlink3res)},
	11: {args3[nfsv3.Mknod3args](), res3(nfsv3.ReadMknod3res)},
	12: {args3[nfsv3.Remove3args](), res3(nfsv3.ReadRemove3res)},
	13: {args3[nfsv3.Rmdir3args](), res3(nfsv3.ReadRmdir3res)},
	14: {args3[nfsv3.Rename3args](), res3(nfsv3.ReadRename3res)},
	15: {args3[nfsv3.Link3args](), res3(nfsv3.ReadLink3res)},
	16: {args3[nfsv3.Readdir3args](), res3(nfsv3.ReadReaddir3res)},
	17: {args3[nfsv3.Readdirplus3args](), res3(nfsv3.ReadReaddirplus3res)},
	18: {args3[nfsv3.Fsstat3args](), res3(nfsv3.ReadFsstat3res)},
	19: {args3[nfsv3.Fsinfo3args](), res3(nfsv3.ReadFsinfo3res)},
	20: {args3[nfsv3.Pathconf3args](), res3(nfsv3.ReadPathconf3res)},
	21: {args3[nfsv3.Commit3args](), res3(nfsv3.ReadCommit3res)},
}

func call3(proc int, args []byte) *oncrpc.Call {
	return &oncrpc.Call{Program: program, Version: 3, Procedure: uint32(proc), Args: oncrpc.Payload{Stream: args}}
}

// compare3 holds the walker against the oracle over arguments or results.
func compare3(t *testing.T, p *ulb.Plan, proc int, results bool, body []byte) {
	t.Helper()
	decode, walk := procs3[proc].args, func() walked {
		err := p.Call(registry, call3(proc, body))
		return walked{slices.Clone(p.Items), p.Offset(), err}
	}
	if results {
		decode, walk = procs3[proc].results, func() walked {
			ask := header(0, 0, 0, -1) // an empty handle, and for READ offset and count
			p.StartCall(registry, call3(proc, nil), -1)
			_, _, _ = p.Walk(ask)
			err := p.Reply(&oncrpc.Payload{Stream: body})
			var found []ulb.Item
			if len(p.Results) > 0 && p.Results[0].Pos >= 0 {
				found = append(found, ulb.Item{Pos: p.Results[0].Pos, Len: p.Results[0].Len})
			}
			return walked{found, p.Offset(), err}
		}
	}
	items, n, oracle := decode(bytes.NewReader(body))
	switch got := walk(); {
	case oracle == nil:
		if want := (walked{items(int(n)), int(n), nil}); got.err != nil || got.end != want.end || !slices.Equal(got.items, want.items) {
			t.Fatalf("procedure %d: got %+v, want %+v for % x", proc, got, want, body)
		}
	case got.err == nil && !pickier(oracle):
		t.Fatalf("procedure %d: walked to %d, but go-xdr: %v for % x", proc, got.end, oracle, body)
	}
}

// TestVersion3 draws bodies of each procedure, and changes them.
func TestVersion3(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var p ulb.Plan
	for proc := 1; proc < len(procs3); proc++ {
		for _, results := range []bool{false, true} {
			decode := procs3[proc].args
			if results {
				decode = procs3[proc].results
			}
			for range 100 {
				body := roll(r, nil, func(r io.Reader) error { _, _, err := decode(r); return err })
				compare3(t, &p, proc, results, body)
				for range 10 {
					compare3(t, &p, proc, results, mutated(r, body))
				}
			}
		}
	}
}

func FuzzVersion3(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for proc := 1; proc < len(procs3); proc++ {
		for _, results := range []bool{false, true} {
			decode := procs3[proc].args
			if results {
				decode = procs3[proc].results
			}
			f.Add(uint8(proc), results, roll(r, nil, func(r io.Reader) error { _, _, err := decode(r); return err }))
		}
	}
	f.Fuzz(func(t *testing.T, proc uint8, results bool, body []byte) {
		var p ulb.Plan
		compare3(t, &p, 1+int(proc)%(len(procs3)-1), results, body)
	})
}

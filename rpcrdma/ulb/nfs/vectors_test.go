package nfs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func words(n ...uint32) []byte {
	var b []byte
	for _, v := range n {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

var join = slices.Concat[[]byte]

func str(s string) []byte { return xdr.AppendString(nil, s) }

// TestExtendedAttributes has the operations of RFC 8276 §8.4, which go-xdr
// lacks, by hand. Each stands between others, so that its end shows.
func TestExtendedAttributes(t *testing.T) {
	change := words(1, 0, 7, 0, 8)
	for name, c := range map[string]struct {
		number        uint32
		args, results []byte
	}{
		"GETXATTR":    {72, str("user.mime"), str("text/plain; charset=utf-8")},
		"SETXATTR":    {73, join(words(2), str("user.a"), str("value")), change},
		"LISTXATTRS":  {74, words(0, 0, 4096), join(words(0, 3, 2), str("a"), str("bcdef"), words(1))},
		"REMOVEXATTR": {75, str("user.a"), change},
	} {
		t.Run(name, func(t *testing.T) {
			var p ulb.Plan
			args := join(str("x"), words(2, 3, 24, c.number), c.args, words(25, 0, 0, 0, 0, 0, 0, 100))
			if err := p.Call(registry, v4call(args)); err != nil || p.Offset() != len(args) || len(p.Results) != 1 {
				t.Fatalf("call: %v at %d of %d, %+v", err, p.Offset(), len(args), p.Results)
			}
			head := join(words(0), str("x"), words(3, 24, 0, c.number, 0), c.results)
			reply := join(head, words(25, 0, 1), str("hello"))
			if err := p.Reply(&oncrpc.Payload{Stream: reply}); err != nil || p.Offset() != len(reply) {
				t.Fatalf("reply: %v at %d of %d", err, p.Offset(), len(reply))
			}
			if got, want := p.Results[0], (ulb.Result{Max: 100, Asked: xdr.Span{Begin: len(args) - 32, End: len(args)}, Pos: len(head) + 16, Len: 5}); got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
			if n := len(reply) - 8; p.MaxReply < n {
				t.Errorf("estimate %d for a reply of %d", p.MaxReply, n)
			}
			failed := join(words(10096), str("x"), words(2, 24, 0, c.number, 10096))
			if err := p.Reply(&oncrpc.Payload{Stream: failed}); err != nil || p.Offset() != len(failed) || p.Results[0].Pos != -1 {
				t.Errorf("failed reply: %v at %d of %d, %+v", err, p.Offset(), len(failed), p.Results)
			}
			for cut := range reply[:len(head)] {
				if err := p.Reply(&oncrpc.Payload{Stream: reply[:cut]}); !errors.Is(err, ulb.ErrMalformed) {
					t.Fatalf("reply cut at %d: %v", cut, err)
				}
			}
		})
	}
}

// TestAttributeDelegations has the delegations of RFC 9754 §5, which are laid
// out as those that they extend.
func TestAttributeDelegations(t *testing.T) {
	ace := join(words(0, 0, 0), str("OWNER@"))
	sid := make([]byte, 16)
	for name, delegation := range map[string][]byte{
		"read":  join(words(4), sid, words(0), ace),
		"write": join(words(5), sid, words(0, 1, 0, 4096), ace),
	} {
		reply := join(words(0), str(""), words(1, 18, 0), sid, words(1, 0, 1, 0, 2, 0, 1, 3), delegation)
		var p ulb.Plan
		if err := p.Call(registry, v4call(header("", 2, 0))); err != nil {
			t.Fatal(err)
		}
		if err := p.Reply(&oncrpc.Payload{Stream: reply}); err != nil || p.Offset() != len(reply) {
			t.Errorf("%s: %v at %d of %d", name, err, p.Offset(), len(reply))
		}
	}
}

// TestVersion2 has bodies of version 2 (RFC 1094 §2.2) by hand.
func TestVersion2(t *testing.T) {
	fh, attrs, sattr := make([]byte, 32), make([]byte, 68), make([]byte, 32)
	dirOp := join(fh, str("name"))
	list := join(words(1, 7), str("a"), words(9, 1, 8), str("bc"), words(10, 0, 1))
	type item = ulb.Item
	for name, c := range map[string]struct {
		proc      uint32
		args      []byte
		argument  *item
		results   []byte
		result    *item
		max, room int // Max of the result, MaxReply
	}{
		"NULL":       {0, nil, nil, nil, nil, 0, 0},
		"GETATTR":    {1, fh, nil, join(words(0), attrs), nil, 0, 72},
		"SETATTR":    {2, join(fh, sattr), nil, join(words(0), attrs), nil, 0, 72},
		"ROOT":       {3, nil, nil, nil, nil, 0, 0},
		"LOOKUP":     {4, dirOp, nil, join(words(0), fh, attrs), nil, 0, 104},
		"READLINK":   {5, fh, nil, join(words(0), str("target")), &item{Pos: 8, Len: 6}, 1024, 8},
		"READ":       {6, join(fh, words(0, 4096, 0)), nil, join(words(0), attrs, str("seven b")), &item{Pos: 76, Len: 7}, 4096, 76},
		"WRITECACHE": {7, nil, nil, nil, nil, 0, 0},
		"WRITE":      {8, join(fh, words(0, 0, 0), str("data!")), &item{Pos: 48, Len: 5}, join(words(0), attrs), nil, 0, 72},
		"CREATE":     {9, join(dirOp, sattr), nil, join(words(0), fh, attrs), nil, 0, 104},
		"REMOVE":     {10, dirOp, nil, words(0), nil, 0, 4},
		"RENAME":     {11, join(dirOp, dirOp), nil, words(0), nil, 0, 4},
		"LINK":       {12, join(fh, dirOp), nil, words(0), nil, 0, 4},
		"SYMLINK":    {13, join(dirOp, str("to"), sattr), &item{Pos: 44, Len: 2}, words(0), nil, 0, 4},
		"MKDIR":      {14, join(dirOp, sattr), nil, join(words(0), fh, attrs), nil, 0, 104},
		"RMDIR":      {15, dirOp, nil, words(0), nil, 0, 4},
		"READDIR":    {16, join(fh, words(0, 512)), nil, join(words(0), list), nil, 0, 12 + 512},
		"STATFS":     {17, fh, nil, words(0, 1, 2, 3, 4, 5), nil, 0, 24},
	} {
		t.Run(name, func(t *testing.T) {
			call := &oncrpc.Call{Program: program, Version: 2, Procedure: c.proc, Args: oncrpc.Payload{Stream: c.args}}
			var p ulb.Plan
			if err := p.Call(registry, call); err != nil || p.Offset() != len(c.args) {
				t.Fatalf("call: %v at %d of %d", err, p.Offset(), len(c.args))
			}
			if got := p.Items; (c.argument == nil) != (len(got) == 0) || c.argument != nil && got[0] != *c.argument {
				t.Errorf("items %+v, want %+v", got, c.argument)
			}
			if p.MaxReply != c.room {
				t.Errorf("MaxReply %d, want %d", p.MaxReply, c.room)
			}
			if err := p.Reply(&oncrpc.Payload{Stream: c.results}); err != nil || p.Offset() != len(c.results) {
				t.Fatalf("reply: %v at %d of %d", err, p.Offset(), len(c.results))
			}
			if c.result == nil {
				if len(p.Results) != 0 {
					t.Errorf("results %+v", p.Results)
				}
				return
			}
			if want := (ulb.Result{Max: c.max, Path: name == "READLINK", Pos: c.result.Pos, Len: c.result.Len}); len(p.Results) != 1 || p.Results[0] != want {
				t.Errorf("results %+v, want %+v", p.Results, want)
			}
		})
	}
}

// TestEstimates has the arguments that let a reply grow.
func TestEstimates(t *testing.T) {
	v4 := func(op []byte) *oncrpc.Call { return v4call(join(header("", 2, 1), op)) }
	const compound = 16 // status, tag and number of operations
	sid := make([]byte, 16)
	for name, c := range map[string]struct {
		call *oncrpc.Call
		want int
	}{
		"v3 NULL":                              {call3(0, nil), 0},
		"v3 GETATTR":                           {call3(1, words(0)), 4 + 84},
		"v3 READDIR":                           {call3(16, words(0, 0, 0, 0, 0, 32768)), 4 + 88 + 8 + 4 + 4 + 32768},
		"v3 READDIRPLUS":                       {call3(17, words(0, 0, 0, 0, 0, 512, 65536)), 4 + 88 + 8 + 4 + 4 + 65536},
		"v3 READ":                              {call3(6, words(0, 0, 0, 1<<20)), 4 + 88 + 4 + 4 + 4},
		"v3 LOOKUP":                            {call3(3, join(words(0), str("n"))), 4 + 68 + 2*88},
		"v4 tag":                               {v4call(header("12345678", 0, 0)), compound + 8},
		"v4 READDIR":                           {v4(words(26, 0, 0, 0, 0, 100, 4096, 0)), compound + 8 + 8 + 8 + 4096},
		"v4 READ":                              {v4(join(words(25), sid, words(0, 0, 1<<20))), compound + 4 + 4 + 4 + 4},
		"v4 READ_PLUS":                         {v4(join(words(68), sid, words(0, 0, 1<<20))), compound + 8 + 4 + expectHoles + 1<<20},
		"v4 GETATTR nothing":                   {v4(words(9, 0)), compound + 8 + expectBitmap + 4},
		"v4 GETATTR size":                      {v4(words(9, 1, 1<<4)), compound + 8 + expectBitmap + 4 + 24},
		"v4 GETATTR owner, in the second word": {v4(words(9, 2, 0, 1<<4)), compound + 8 + expectBitmap + 4 + expectString},
		"v4 GETATTR acl":                       {v4(words(9, 1, 1<<12)), compound + 8 + expectBitmap + 4 + 65536},
		"v4 GETATTR OPEN_ARGUMENTS":            {v4(words(9, 3, 0, 0, 1<<22)), compound + 8 + expectBitmap + 4 + 5*expectBitmap},
		"v4 GETATTR POSIX ACLs":                {v4(words(9, 3, 0, 0, 3<<27)), compound + 8 + expectBitmap + 4 + 2*65536},
		"v4 GETATTR not assigned yet":          {v4(words(9, 3, 0, 0, 7<<29)), compound + 8 + expectBitmap + 4 + 3*1024},
		"v4 GETATTR unheard of":                {v4(words(9, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1<<31)), compound + 8 + expectBitmap + 4 + 1024},
		"v4 LISTXATTRS":                        {v4(words(74, 0, 0, 2000)), compound + 8 + 8 + 4 + 4 + 2000},
		"v4 GETXATTR":                          {v4(join(words(72), str("n"))), compound + 8 + expectXattr},
		"v4 TEST_STATEID":                      {v4(join(words(55, 2), sid, sid)), compound + 8 + 4 + 8},
		"v4 GETDEVICELIST":                     {v4(words(48, 1, 10, 0, 0, 0, 0)), compound + 8 + 8 + 8 + 4 + 4 + 160},
		"v4 GETDEVICEINFO":                     {v4(join(words(47), sid, words(1, 5000, 0))), compound + 8 + 8 + expectBitmap + 5000},
		"v4 no overflow":                       {v4(join(words(68), sid, words(0, 0, 1<<32-1))), 1 << 30},
		"NLM TEST":                             {&oncrpc.Call{Program: nlmProgram, Version: 4, Procedure: 1}, 1028 + 4 + 4 + 4 + 1028 + 16},
		"NLM LOCK":                             {&oncrpc.Call{Program: nlmProgram, Version: 1, Procedure: 2}, 1032},
		"NLM SHARE":                            {&oncrpc.Call{Program: nlmProgram, Version: 3, Procedure: 20}, 1036},
		"NLM hole":                             {&oncrpc.Call{Program: nlmProgram, Version: 4, Procedure: 17}, ulb.Unknown},
		"NLM version 1 ends":                   {&oncrpc.Call{Program: nlmProgram, Version: 1, Procedure: 20}, ulb.Unknown},
		"NSM MON":                              {&oncrpc.Call{Program: nsmProgram, Version: 1, Procedure: 2}, 8},
		"MOUNT MNT 3":                          {&oncrpc.Call{Program: mountProgram, Version: 3, Procedure: 1}, 4 + 68 + 260},
		"MOUNT MNT 1":                          {&oncrpc.Call{Program: mountProgram, Version: 1, Procedure: 1}, 36},
		"MOUNT PATHCONF":                       {&oncrpc.Call{Program: mountProgram, Version: 2, Procedure: 7}, 64},
		"MOUNT EXPORT":                         {&oncrpc.Call{Program: mountProgram, Version: 3, Procedure: 5}, ulb.Unknown},
		"other version":                        {&oncrpc.Call{Program: program, Version: 5, Procedure: 1}, ulb.Unknown},
		"other procedure":                      {&oncrpc.Call{Program: program, Version: 3, Procedure: 22}, ulb.Unknown},
		"other program":                        {&oncrpc.Call{Program: 100227, Version: 3, Procedure: 1}, ulb.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			var p ulb.Plan
			if err := p.Call(registry, c.call); err != nil || p.Offset() != len(c.call.Args.Stream) && p.MaxReply != ulb.Unknown {
				t.Fatalf("%v at %d of %d", err, p.Offset(), len(c.call.Args.Stream))
			}
			if p.MaxReply != c.want {
				t.Errorf("MaxReply %d, want %d", p.MaxReply, c.want)
			}
		})
	}
}

// TestEveryResultHasASize: an operation's results without a maximum would make
// every estimate Unknown.
func TestEveryResultHasASize(t *testing.T) {
	for _, b := range Bindings() {
		for i, p := range b.Procs {
			if p.Args != nil && p.Results.Max() < 0 && !strings.HasPrefix(b.Name, "MOUNT") {
				t.Errorf("%s procedure %d", b.Name, i)
			}
		}
	}
	for _, o := range known() {
		if o.results.Max() < 0 {
			t.Errorf("operation %d", o.number)
		}
	}
}

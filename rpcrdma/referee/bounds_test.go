package referee

import (
	"runtime"
	"testing"
)

// mostMemory is the most memory that a Referee may use, in bytes
// (docs/referee.md).
const mostMemory = 32 << 20

// TestMemory fills every table to its bound: chunks of all kinds, replies that
// wait for DONE, half-transferred long messages and scattered writes.
func TestMemory(t *testing.T) {
	before := heap()
	r := New(Config{})
	r.Connect(Private{Client: private(1, 255, 255), Server: private(1, 255, 255)})
	most := int64(0)
	for xid := range 6 * maxCalls {
		fillCall(r, xid)
		if xid%256 == 255 {
			now := heap() - before
			most = max(most, now)
			if size := int64(r.Size()); r.GivenUp() == "" && (size < now || size > 3*now+1<<20) {
				t.Errorf("after %d calls: %d bytes, and it says %d", xid+1, now, size)
			}
		}
		if r.GivenUp() != "" {
			break
		}
	}
	if r.GivenUp() == "" {
		t.Error("it has not given up")
	}
	after := heap() - before
	t.Logf("%d bytes at most, %d bytes after it gave up: %s", most, after, r.GivenUp())
	if most > mostMemory || after > 1<<20 {
		t.Errorf("%d bytes at most, want %d; %d bytes after it gave up", most, mostMemory, after)
	}
	r.Observe(&Event{Kind: Send, From: Server, Data: replyOf(7, 0), Length: 1})
	runtime.KeepAlive(r)
}

// fillCall makes calls in both directions that use as much memory as possible.
func fillCall(r *Referee, xid int) {
	for _, s := range []Side{Client, Server} {
		xid := xid + int(s)<<20
		stag := 100 * xid
		l := lists{reads: []rd{{0, seg{stag, 1 << 16, 0}}}, reply: []seg{{stag + 1, 1 << 16, 0}}}
		for i := range 6 {
			l.writes = append(l.writes, []seg{{stag + 2 + i, 1 << 16, 0}})
		}
		data := v1(xid, 1<<16, nomsg, l, nil)
		r.Observe(&Event{Kind: Send, From: s, Data: data, Length: len(data)})
		piece := make([]byte, 1024)
		r.Observe(&Event{Kind: Read, From: s.Peer(), STag: uint32(stag), Length: len(piece)})
		if xid%2 == 0 {
			r.Observe(&Event{Kind: ReadDone, From: s.Peer(), Data: piece, Length: len(piece)})
		}
		for i := range 12 {
			r.Observe(&Event{Kind: Write, From: s.Peer(), STag: uint32(stag + 1 + i%7), Offset: uint64(4096 * i), Data: piece, Length: len(piece)})
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestGivesUp checks that each full table has its reason, and that the Referee
// is silent afterwards.
func TestGivesUp(t *testing.T) {
	for name, play := range map[string]func(b *bed){
		"calls": func(b *bed) {
			for xid := range maxCalls + 1 {
				b.send(Client, callOf(xid, 1))
			}
		},
		"segments": func(b *bed) {
			chunk := make([]seg, 1000)
			for xid := range maxWindows/1000 + 1 {
				b.send(Client, v1(xid, 1, msg, lists{reply: chunk}, null(xid)))
			}
		},
		"chunks without segments": func(b *bed) {
			for xid := range maxWindows/1000 + 1 {
				b.send(Client, v1(xid, 1, msg, lists{writes: make([][]seg, 1000)}, null(xid)))
			}
		},
		"reads": func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{reads: []rd{{40, seg{7, 100, 0}}}}, null(1)))
			for range maxReads + 1 {
				b.event(Event{Kind: Read, From: Server, STag: 7, Length: 4})
			}
		},
		"replies": func(b *bed) {
			for xid := range maxCalls + 1 {
				b.send(Client, callOf(xid, 1))
				b.send(Server, v1(xid, 1, msg, lists{reads: []rd{{24, seg{xid, 100, 0}}}}, rpcReplyBytes(xid)))
			}
		},
		"header": func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{reply: make([]seg, maxHeader/16)}, null(1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := connected(t)
			play(b)
			if b.r.GivenUp() == "" {
				t.Fatal("it has not given up")
			}
			n := len(b.got)
			b.send(Server, replyOf(99999, 1))
			b.r.Gap()
			if len(b.got) > n {
				t.Errorf("it is not silent: %v", b.got[n:])
			}
		})
	}
}

// BenchmarkObserve judges READs and WRITEs of 1 MiB.
func BenchmarkObserve(b *testing.B) {
	r := New(Config{Report: func(v Violation) { b.Fatal(v) }})
	r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
	data := make([]byte, 1<<20)
	args := write3(len(data))
	writeCall := v1(1, 1, msg, lists{reads: []rd{{len(args), seg{7, len(data), 0}}}}, args)
	readCall := v1(2, 1, msg, lists{writes: [][]seg{{{8, len(data), 0}}}}, append(words(2), rpcCallBytes(1, nfsProgram, 3, nfs3Read, encoded(&handle3), uint64(0), len(data))[4:]...))
	writeReply, readReply := replyOf(1, 1), v1(2, 1, msg, lists{writes: [][]seg{{{8, len(data), 0}}}}, append(words(2), read3(len(data), nil)[4:]...))
	send := func(s Side, d []byte) { r.Observe(&Event{Kind: Send, From: s, Data: d, Length: len(d)}) }
	b.SetBytes(int64(2 * len(data)))
	b.ReportAllocs()
	for b.Loop() {
		send(Client, writeCall)
		r.Observe(&Event{Kind: Read, From: Server, STag: 7, Length: len(data)})
		r.Observe(&Event{Kind: ReadDone, From: Server, Data: data, Length: len(data)})
		send(Server, writeReply)
		send(Client, readCall)
		r.Observe(&Event{Kind: Write, From: Server, STag: 8, Data: data, Length: len(data)})
		send(Server, readReply)
	}
}

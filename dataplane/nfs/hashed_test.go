package nfs

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A listing of a directory that just changed is not taken from what is kept.
func TestHashedSeesChanges(t *testing.T) {
	x := serve(t, options{})
	x.lister = newHashed(x.subtree)
	c := x.me()
	root := c.root()
	want := map[string]bool{".": true, "..": true}
	for i := range 50 {
		name := fmt.Sprint("f", i)
		must(t, os.WriteFile(x.path(name), nil, 0o600))
		want[name] = true
		got := c.list(root, false, 8192, nothing)
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Fatalf("after %s: %v", name, got)
		}
	}
}

// A kept listing is used until the directory changes. A listing is only kept if it was read well
// after the last change.
func TestHashedUsesWhatIsKept(t *testing.T) {
	x := serve(t, options{})
	h := newHashed(x.subtree)
	x.lister = h
	c := x.me()
	root := c.root()
	c.mkfile(root, "a")
	snap, err := h.snapshot(x.top, 0)
	must(t, err)
	h.keep(snap)
	if again, err := h.snapshot(x.top, 0); again != snap || err != nil {
		t.Error("what is kept was not used")
	}
	c.mkfile(root, "b")
	if got := c.list(root, false, 8192, nothing); len(got) != 4 {
		t.Errorf("an old listing: %v", got)
	}
	if now, _ := h.snapshot(x.top, 0); now == snap {
		t.Error("what is kept was used after a change")
	}
	for nsec, rest := range map[int64]time.Duration{1: settled, 0: coarse + settled} {
		at := time.Unix(1000, nsec)
		for after, want := range map[time.Duration]bool{-time.Hour: false, 0: false, rest: false, rest + 1: true} {
			if isSettled(unix.NsecToTimespec(at.UnixNano()), at.Add(after)) != want {
				t.Errorf("%v after a change at %v: settled is not %v", after, at, want)
			}
		}
	}
}

// A directory that changed just before it was read is not kept, however long reading it took:
// a change meanwhile may have left its times as they were.
func TestHashedReadsSlowly(t *testing.T) {
	x := serve(t, options{})
	h := newHashed(x.subtree)
	fast := direntBuffers.New
	defer func() { direntBuffers = sync.Pool{New: fast} }()
	direntBuffers = sync.Pool{New: func() any {
		time.Sleep(2 * settled)
		return fast()
	}}
	must(t, os.WriteFile(x.path("f"), nil, 0o600))
	if _, err := h.snapshot(x.top, 0); err != nil || len(h.kept) != 0 {
		t.Errorf("%v; %d are kept", err, len(h.kept))
	}
}

// The number of kept listings, and that of their names, are bounded.
func TestHashedKeepsLittle(t *testing.T) {
	x := serve(t, options{})
	h := newHashed(x.subtree)
	for i := range 3 * maxSnapshots {
		s := &snapshot{entries: make([]dirent, maxSnapNames/8)}
		s.dir = x.top.handle
		h.keep(s)
		if h.names > maxSnapNames || len(h.kept) > maxSnapshots {
			t.Fatalf("after %d: %d names of %d directories", i, h.names, len(h.kept))
		}
	}
}

// Listings that wait for the file system, of directories that change, have little memory each.
func TestHashedListsWithLittle(t *testing.T) {
	const names, lists, most = 3000, 20, 4 << 20
	x := serve(t, options{})
	for i := range names {
		must(t, os.Symlink("t", x.path(fmt.Sprintf("%060d", i))))
	}
	h := newHashed(x.subtree)
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	var end sync.WaitGroup
	begun, hang := make(chan struct{}), make(chan struct{})
	for i := range lists {
		must(t, os.Chmod(x.dir, 0o700|os.FileMode(i)))
		end.Go(func() {
			if _, err := h.list(x.top, 0, func(*dirent) bool {
				begun <- struct{}{}
				<-hang
				return false
			}); err != nil {
				t.Error(err)
			}
		})
		<-begun
	}
	if n := used(); n > before+most {
		t.Errorf("%d listings have %d KiB", lists, (n-before)>>10)
	}
	close(hang)
	end.Wait()
}

// Without the right to read more than it needs, and in a directory that is too large to be kept
// as a whole, a call has the entries that come next.
func TestHashedReadsWhatComesNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := &snapshot{last: noLast}
		cookies := rapid.SliceOfN(rapid.Uint64Range(1, 1000), 1, 300).Draw(t, "cookies")
		part := &snapshot{first: rapid.Uint64Range(0, 1000).Draw(t, "first"), last: noLast}
		most := rapid.IntRange(4*minDirent, 400*minDirent).Draw(t, "most")
		for i, c := range cookies {
			e := dirent{cookie: c << 32, name: []byte(fmt.Sprint(i))}
			all.add(e, 1<<30)
			part.add(e, most)
			if _, size := fill(part.entries, 1<<30); size > most {
				t.Fatalf("%d bytes of at most %d", size, most)
			}
		}
		all.sort()
		part.sort()
		next := slices.DeleteFunc(all.entries, func(e dirent) bool { return e.cookie < part.first })
		if part.last != noLast && len(part.entries) < most/4/minDirent || part.last == noLast && len(part.entries) != len(next) {
			t.Fatalf("%d entries", len(part.entries))
		}
		for i, e := range part.entries {
			if e.cookie != next[i].cookie {
				t.Fatalf("entry %d is %d, want %d", i, e.cookie, next[i].cookie)
			}
		}
	})
}

// So the whole directory is listed in parts, while another call reads more than it needs.
func TestHashedListsInParts(t *testing.T) {
	x := serve(t, options{})
	h := newHashed(x.subtree)
	x.lister = h
	const names = 3000
	for i := range names {
		must(t, os.Symlink("t", x.path(fmt.Sprintf("%060d", i))))
	}
	c := x.me()
	root := c.root()
	h.large.Lock()
	if all := c.list(root, false, maxDirReply, nothing); len(all) != names+2 || len(h.kept) > 0 {
		t.Errorf("%d names are listed, %d directories are kept", len(all), len(h.kept))
	}
	h.large.Unlock()
	part, err := h.snapshot(x.top, 0)
	must(t, err)
	part.entries = part.entries[:names/2]
	part.last = part.entries[names/2-1].cookie
	h.keep(part)
	if all := c.list(root, false, maxDirReply, nothing); len(all) != names+2 {
		t.Errorf("%d names are listed, of which half are kept", len(all))
	}
}

// Clients that are in different parts of a large directory do not make each other read it for
// each call.
func TestHashedKeepsSeveralParts(t *testing.T) {
	x := serve(t, options{})
	h := newHashed(x.subtree)
	const names = 100
	for i := range names {
		must(t, os.Symlink("t", x.path(fmt.Sprint(i))))
	}
	var begin *snapshot
	for len(h.kept) == 0 { // until the directory's last change is long enough ago
		var err error
		begin, err = h.snapshot(x.top, 0)
		must(t, err)
	}
	begin.entries = begin.entries[:names/2]
	begin.last = begin.entries[names/2-1].cookie
	h.names = names / 2
	rest, err := h.snapshot(x.top, begin.last)
	must(t, err)
	for range 3 {
		if again, err := h.snapshot(x.top, 0); again != begin || err != nil {
			t.Fatalf("the beginning was read again, %v", err)
		}
		if again, err := h.snapshot(x.top, begin.last); again != rest || err != nil {
			t.Fatalf("the rest was read again, %v", err)
		}
	}
	whole := *rest
	whole.first = 0
	if h.keep(&whole); len(h.kept) != 1 || h.names != len(rest.entries) {
		t.Errorf("%d parts with %d names are kept after the whole", len(h.kept), h.names)
	}
	must(t, os.Chmod(x.dir, 0o711))
	var st unix.Stat_t
	must(t, x.top.stat(&st))
	if h.take(x.top, &st, 0) != nil || len(h.kept) > 0 || h.names != 0 {
		t.Errorf("%d parts with %d names are kept after a change", len(h.kept), h.names)
	}
}

// Two names with one hash come one after the other.
func TestHashedCollision(t *testing.T) {
	s := &snapshot{entries: []dirent{
		{name: []byte("c"), cookie: 7}, {name: []byte("a"), cookie: 7}, {name: []byte("b"), cookie: 7}, {name: []byte("d"), cookie: 8},
	}}
	s.sort()
	var got []string
	for i, e := range s.entries {
		got = append(got, string(e.name))
		if i > 0 && e.cookie <= s.entries[i-1].cookie {
			t.Errorf("cookies %d, %d", s.entries[i-1].cookie, e.cookie)
		}
	}
	if !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Error(got)
	}
}

// The test vectors of the SipHash paper's reference implementation.
func TestSipHash(t *testing.T) {
	want := map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5}
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(i)
	}
	for n, sum := range want {
		if got := sipHash(0x0706050403020100, 0x0f0e0d0c0b0a0908, b[:n]); got != sum {
			t.Errorf("%d bytes: %x, want %x", n, got, sum)
		}
	}
}

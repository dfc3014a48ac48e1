package interop

import (
	"fmt"
	"strings"
	"testing"
)

// testNames makes names of all lengths and with unusual characters.
func testNames(t *testing.T, w *work) {
	longest := strings.Repeat("n", 255)
	w.client(t, `for n in 1 2 3 4 5 127 128 254 255; do touch "$(head -c $n /dev/zero | tr '\0' n)"; done
if touch `+longest+`x 2>/dev/null; then echo "a name of 256 bytes was taken"; exit 1; fi
touch -- 'two words' '-dash' '*' 'ünïcödé-日本語' '.hidden' 'back\slash' "quote'\"" 'trailing ' "new
line"
mkdir -p a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t && touch a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/deep`)
	list := `find . | LC_ALL=C sort | sha256sum; find . | wc -l`
	onServer := w.serverSide(t, list)
	same(t, "names seen by the client", w.client(t, list), onServer)
	w.refetch(t)
	same(t, "names fetched again by the client", w.client(t, list), onServer)
	w.serverSide(t, `[ -e `+longest+` ] && [ -e 'ünïcödé-日本語' ] && [ -e 'back\slash' ] && [ -e a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/deep ]`)
}

// testLinks makes symbolic links, short and longer than an inline message, and
// hard links.
func testLinks(t *testing.T, w *work) {
	w.client(t, `for n in 1 100 1023 2000 4095; do
	target=$(head -c $n /dev/zero | tr '\0' x)
	ln -s "$target" to-$n
	echo "$target" | sha256sum >>/tmp/links
done
echo text >file; ln -s file good; ln -s nowhere dangling; ln -s .. up
ln file hard1; ln hard1 hard2`)
	check := `for n in 1 100 1023 2000 4095; do readlink to-$n | sha256sum; done`
	want := w.client(t, "cat /tmp/links; rm /tmp/links")
	same(t, "link targets on the server", w.serverSide(t, check), want)
	w.refetch(t)
	same(t, "link targets fetched again", w.client(t, check), want)
	same(t, "reading through links", w.client(t, `cat good hard1 hard2
[ -L dangling ] && [ ! -e dangling ] && [ -d up ]
stat -c %h file hard1 hard2
echo more >>hard2; rm file; cat hard1; stat -c %h hard1`),
		"text\ntext\ntext\n3\n3\n3\ntext\nmore\n2\n")
	same(t, "hard links on the server", w.serverSide(t, "stat -c %h hard1 hard2; cat hard2"), "2\n2\ntext\nmore\n")
}

// testRenameRemove renames and removes, and tries what must fail.
func testRenameRemove(t *testing.T, w *work) {
	w.client(t, `must_fail() { if "$@" 2>/dev/null; then echo "went well: $*"; exit 1; fi; }
mkdir d e full; touch full/x
echo 1 >a; echo 2 >b
mv a b; [ "$(cat b)" = 1 ]; [ ! -e a ]
mv b d/; mv d/b e/c; [ "$(cat e/c)" = 1 ]
mv d moved; mv moved e/; [ -d e/moved ]
must_fail rmdir full
must_fail rmdir e/c
must_fail rm nothing
must_fail mkdir full
must_fail cat nothing
must_fail ls e/c/under-a-file
must_fail mv -T e full
rmdir e/moved; rm e/c; rmdir e; rm full/x; rmdir full
# Removed while open: still there for who has it open.
echo before >open
exec 3<>open
rm open
[ ! -e open ]
echo after >&3
exec 3>&-`)
	same(t, "what is left", w.serverSide(t, waitSilly+"find . | sort"), ".\n")
}

// waitSilly waits, for some minutes at most, until the client has removed a
// file that it renamed (to .nfs and digits) because somebody had it open. It
// does so by a call that nobody waits for, after the last close (Linux,
// fs/nfs/unlink.c: nfs_do_call_unlink is asynchronous); on a busy machine the
// server can be looked at before that.
const waitSilly = `for i in $(seq 3000); do
	[ -z "$(find . -name '.nfs*')" ] && break
	sleep 0.05
done
`

// largeDirectory returns how many names the directory has, and how many replies of
// 1 MiB they and their attributes need at least.
func largeDirectory() (names, replies int) {
	if *longFlag {
		return 20000, 3
	}
	return 6000, 2
}

// testLargeDirectory lists more names than fit any one reply, while they come
// and go.
func testLargeDirectory(t *testing.T, w *work) {
	names, replies := largeDirectory()
	w.serverSide(t, fmt.Sprintf("mkdir many; cd many; seq 100001 %d | sed 's/^1/a-name-of-some-length-/' | xargs touch", 100000+names))
	var before xprtStats
	if w.via == overRDMA {
		before = w.stats(t)
	}
	list := "cd many; find . -mindepth 1 | LC_ALL=C sort >/tmp/list-$$; wc -l </tmp/list-$$; sha256sum </tmp/list-$$; rm /tmp/list-$$"
	want := w.serverSide(t, list)
	if !strings.HasPrefix(want, fmt.Sprintf("%d\n", names)) {
		t.Fatalf("the server has %s names, want %d", want, names)
	}
	r, chunks := w.rdmad(), chunkStats{}
	if r != nil {
		chunks = r.chunks(t)
	}
	same(t, "names seen by the client", w.client(t, list), want)
	if r != nil {
		checkListed(t, r.chunks(t).since(chunks), names, replies)
	}
	if w.via == overRDMA {
		if n := w.stats(t).replyChunks - before.replyChunks; n < uint64(replies) {
			t.Errorf("the client offered %d reply chunks for the list, want %d", n, replies)
		}
	}
	w.client(t, `cd many
rm a-name-of-some-length-01*
for i in 1 2 3 4 5 6 7 8 9; do touch new-$i; mv a-name-of-some-length-0200$i renamed-$i; done`)
	want = w.serverSide(t, list)
	if left := names - 991; !strings.HasPrefix(want, fmt.Sprintf("%d\n", left)) {
		t.Errorf("the server has %s names after the client's changes, want %d", want, left)
	}
	same(t, "names after changes", w.client(t, list), want)
	w.refetch(t)
	same(t, "names fetched again", w.client(t, list), want)
	w.serverSide(t, "rm -rf many")
}

// checkListed checks that the list came in reply chunks: no result of READDIR may
// travel in a write chunk, and what was placed by RDMA is more than the names.
func checkListed(t *testing.T, c chunkStats, names, replies int) {
	t.Helper()
	bytes := names * len("a-name-of-some-length-00000")
	if c.Replies < float64(replies) || c.Writes != 0 || c.Placed < float64(bytes) {
		t.Errorf("rdmad counts %v segments of reply chunks, %v of write chunks and %v bytes placed in them for the list, want %d, 0 and %d",
			c.Replies, c.Writes, c.Placed, replies, bytes)
	}
}

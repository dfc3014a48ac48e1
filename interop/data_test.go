package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sizes are around the limits of inline data, read chunks and segments, and
// need padding.
var sizes = []int{0, 1, 3, 4095, 4096, 4097, 65535, 1<<20 + 1}

// testSizes moves files both ways and compares checksums of both sides. One file takes
// longer than all others together.
func testSizes(t *testing.T, w *work) {
	largest := 16 << 20
	if *longFlag {
		largest = 64 << 20
	}
	moveFiles(t, w, append(slices.Clip(sizes), largest))
}

// testSmallSizes leaves out the largest size.
func testSmallSizes(t *testing.T, w *work) { moveFiles(t, w, sizes) }

func moveFiles(t *testing.T, w *work, sizes []int) {
	t.Helper()
	all := strings.Trim(fmt.Sprint(sizes), "[]") // for a shell's for loop
	wrote := w.client(t, `for n in `+all+`; do
	head -c $n /dev/urandom >/tmp/data
	cp /tmp/data to-server-$n
	echo $n $(sha256sum </tmp/data)
done
rm /tmp/data`)
	same(t, "what the server has of the client's files",
		w.serverSide(t, `for n in `+all+`; do [ $n = $(stat -c %s to-server-$n) ]; echo $n $(sha256sum <to-server-$n); done`), wrote)

	made := w.serverSide(t, `for n in `+all+`; do
	head -c $n /dev/urandom >to-client-$n
	echo $n $(sha256sum <to-client-$n)
done`)
	read := `for n in ` + all + `; do [ $n = $(stat -c %s to-client-$n) ]; echo $n $(sha256sum <to-client-$n); done`
	same(t, "what the client read of the server's files", w.client(t, read), made)
	w.refetch(t)
	same(t, "what the client read of its own files",
		w.client(t, `for n in `+all+`; do echo $n $(sha256sum <to-server-$n); done`), wrote)
}

// testSparse makes holes, and truncates and extends files.
func testSparse(t *testing.T, w *work) {
	const gib = 1 << 30
	sum := w.client(t, `head -c 4096 /dev/urandom >/tmp/block
dd if=/tmp/block of=sparse bs=4096 seek=262144 2>/dev/null
sha256sum </tmp/block`)
	got := w.serverSide(t, `dd if=sparse bs=4096 skip=262144 2>/dev/null | sha256sum
stat -c %s sparse; [ $(stat -c %b sparse) -lt 4096 ]`)
	same(t, "the block behind the hole and the size", got, sum+fmt.Sprintln(gib+4096))
	w.refetch(t)
	same(t, "a MiB of the hole", w.client(t, "dd if=sparse bs=1M skip=512 count=1 2>/dev/null | sha256sum"),
		w.client(t, "head -c 1048576 /dev/zero | sha256sum"))

	same(t, "sizes after truncation", w.client(t, `head -c 10000 /dev/urandom >/tmp/t; cp /tmp/t cut
truncate -s 5001 cut; stat -c %s cut
truncate -s 70000 cut; stat -c %s cut
truncate -s 0 sparse; stat -c %s sparse
truncate -s 1099511627776 sparse; stat -c %s sparse`), "5001\n70000\n0\n1099511627776\n")
	w.refetch(t)
	want := w.client(t, "(head -c 5001 /tmp/t; head -c 64999 /dev/zero) | sha256sum; rm /tmp/t /tmp/block")
	same(t, "a file cut short and made longer, read by the client", w.client(t, "sha256sum <cut"), want)
	same(t, "the same on the server", w.serverSide(t, "sha256sum <cut"), want)
}

// testAppend writes to files that have content.
func testAppend(t *testing.T, w *work) {
	want := w.client(t, `head -c 100000 /dev/urandom >/tmp/base
cp /tmp/base log; cp /tmp/base /tmp/log
for i in 1 2 3 4 5 6 7 8 9 10; do
	echo "line $i" >>log; echo "line $i" >>/tmp/log
done
for at in 0 4095 4096 65535 99999; do
	printf 'xyz' | dd of=log bs=1 seek=$at conv=notrunc 2>/dev/null
	printf 'xyz' | dd of=/tmp/log bs=1 seek=$at conv=notrunc 2>/dev/null
done
cat log log >twice; cat /tmp/log /tmp/log >/tmp/twice
sha256sum </tmp/log; sha256sum </tmp/twice
rm /tmp/base /tmp/log /tmp/twice`)
	check := "sha256sum <log; sha256sum <twice"
	same(t, "on the server", w.serverSide(t, check), want)
	w.refetch(t)
	same(t, "on the client", w.client(t, check), want)
}

// testDirect bypasses the client's page cache, with sizes from one sector to
// more than one WRITE.
func testDirect(t *testing.T, w *work) {
	for _, d := range []struct{ blockSize, bytes string }{
		{"512", "65536"}, {"4k", "524288"}, {"64k", "4194304"}, {"1M", "8388608"}, {"4M", "8388608"},
	} {
		want := w.client(t, `head -c `+d.bytes+` /dev/urandom >/tmp/data
dd if=/tmp/data of=direct bs=`+d.blockSize+` oflag=direct 2>/dev/null
sha256sum </tmp/data`)
		same(t, d.blockSize+" direct writes, on the server", w.serverSide(t, "sha256sum <direct"), want)
		same(t, d.blockSize+" direct reads", w.client(t, "dd if=direct bs="+d.blockSize+" iflag=direct 2>/dev/null | sha256sum"), want)
		w.client(t, "rm direct /tmp/data")
	}
}

// testRemount shows that no data is only in the client's memory.
func testRemount(t *testing.T, w *work) {
	sum := w.client(t, "head -c 3000000 /dev/urandom >kept; mkdir d; ln -s ../kept d/l; sha256sum <kept")
	w.checkStats(t) // the counters go with the mount
	w.detach(t)
	same(t, "on the server, after unmounting", w.serverSide(t, "sha256sum <d/l"), sum)
	w.attach(t)
	same(t, "after mounting again", w.client(t, "sha256sum <d/l"), sum)
	same(t, "a copy made after mounting again", w.client(t, "cp kept copy; sync copy; sha256sum <copy"), sum)
}

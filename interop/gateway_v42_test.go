package interop

import (
	"strings"
	"testing"
)

// ops returns how often each operation was called on the mount.
func (m *mount) ops(t testing.TB) map[string]opStats {
	t.Helper()
	ops, err := parseOps(m.g.MustRun(t, mountTime, "cat /proc/self/mountstats"), m.dir)
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

// waitOps waits until ok accepts the counts, and returns them.
func (m *mount) waitOps(t testing.TB, ok func(map[string]opStats) bool) map[string]opStats {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	for {
		ops := m.ops(t)
		if ok(ops) {
			return ops
		}
		if ctx.Err() != nil {
			t.Fatalf("after %v the client's operations are %+v", clientTime, ops)
		}
	}
}

// mustCall checks that work calls each of the operations.
func (m *mount) mustCall(t *testing.T, work func(), names ...string) {
	t.Helper()
	before := m.ops(t)
	work()
	after := m.ops(t)
	for _, name := range names {
		if after[name].calls == before[name].calls {
			t.Errorf("the client made no call of %s", name)
		}
	}
}

// testAllocate reserves space, punches holes and seeks them.
func testAllocate(t *testing.T, w *work) {
	w.mustCall(t, func() {
		w.client(t, `/usr/sbin/xfs_io -f -c "falloc 0 1m" reserved
tr '\0' x </dev/zero | head -c 1048576 >holes; sync holes
/usr/sbin/xfs_io -c "fpunch 256k 512k" holes
(head -c 262144 holes; head -c 524288 /dev/zero; tail -c 262144 holes) >/tmp/punched`)
	}, "ALLOCATE", "DEALLOCATE")
	want := "1048576\n1048576\n"
	same(t, "sizes on the server", w.serverSide(t, "stat -c %s reserved holes; [ $(stat -c %b reserved) -ge 2048 ]; [ $(stat -c %b holes) -lt 2048 ]"), want)
	w.refetch(t)
	same(t, "the file with a hole", w.client(t, "sha256sum <holes"), w.client(t, "sha256sum </tmp/punched; rm /tmp/punched"))
	w.mustCall(t, func() {
		same(t, "data and holes", w.client(t, `/usr/sbin/xfs_io -r -c "seek -ar 0" holes`),
			"Whence\tResult\nDATA\t0\nHOLE\t262144\nDATA\t786432\nHOLE\t1048576\n")
	}, "SEEK")
}

// testCopy copies ranges by copy_file_range(2), which the client does by COPY
// where the server can.
func testCopy(t *testing.T, w *work) {
	w.client(t, `head -c 3000000 /dev/urandom >from; sync from
/usr/sbin/xfs_io -f -c "copy_range from" whole
/usr/sbin/xfs_io -f -c "copy_range -s 1000001 -d 5 -l 1234567 from" part`)
	want := w.client(t, "sha256sum <from; (head -c 5 /dev/zero; tail -c +1000002 from | head -c 1234567) | sha256sum")
	check := "sha256sum <whole; sha256sum <part"
	same(t, "copies on the server", w.serverSide(t, check), want)
	w.refetch(t)
	same(t, "copies read again", w.client(t, check), want)
}

// attributeSizes are of user extended attributes: inline, in a read chunk, in a
// reply chunk. ext4 has room for 4 KiB of small ones in a file.
var attributeSizes = []string{"0", "1", "1000", "4000", "20000", "60000"}

// testXattrs sets, reads, lists and removes extended attributes (RFC 8276) of
// several sizes.
func testXattrs(t *testing.T, w *work, sizes []string) {
	each := "for n in " + strings.Join(sizes, " ") + "; do "
	list := `getfattr -d -e hex file names | grep -v ^# | sort | sha256sum; getfattr names | grep -c ^user`
	w.mustCall(t, func() {
		w.client(t, `touch file names
`+each+`setfattr -n user.size-$n -v "$(head -c $n /dev/zero | tr '\0' v)" file; done
for i in $(seq 30); do setfattr -n user.long-$(head -c 90 /dev/zero | tr '\0' n)-$i -v $i names; done
setfattr -n user.gone -v x file; setfattr -x user.gone file
if getfattr -n user.gone file 2>/dev/null; then echo "an attribute that was removed is there"; exit 1; fi`)
		want := w.serverSide(t, list)
		w.refetch(t)
		same(t, "attributes read by the client", w.client(t, list), want)
	}, "SETXATTR", "GETXATTR", "LISTXATTRS", "REMOVEXATTR")
	same(t, "sizes on the server", w.serverSide(t, each+"getfattr --only-values -n user.size-$n file | wc -c; done"),
		strings.Join(sizes, "\n")+"\n")
	w.serverSide(t, `setfattr -n user.size-1 -v "$(head -c 5000 /dev/zero | tr '\0' w)" file`)
	w.refetch(t)
	same(t, "an attribute that the server changed", w.client(t, "getfattr --only-values -n user.size-1 file | tr -d w | wc -c"), "0\n")
}

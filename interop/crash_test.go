package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// limit bounds an operation of a test.
func limit(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

// recordWriter appends records to a file, each with fsync, and prints the
// number of a record when it is on stable storage.
const recordWriter = `i=0
while [ ! -e /tmp/stop ]; do
	i=$((i+1))
	printf 'record %08d\n' $i | dd of=records oflag=append conv=notrunc,fsync 2>/tmp/dd || { cat /tmp/dd >&2; exit 1; }
	echo $i
done`

// crashes is how many times a server is killed under load.
const crashes = 2

// testCrash kills and restarts a server while the client writes. The client
// must continue with nothing lost.
func testCrash(t *testing.T, w *work, killAndStart func(t *testing.T)) {
	cd := "cd " + w.path() + "; "
	records := startScript(t, w.g, cd+recordWriter)
	bulk := startScript(t, w.g, cd+`set -e; n=0
until [ -e /tmp/stop ]; do
	n=$((n+1)); head -c 8000000 /dev/urandom >/tmp/bulk
	cp /tmp/bulk bulk-$((n%4)); sync bulk-$((n%4))
	echo bulk-$((n%4)) $(sha256sum </tmp/bulk)
done`)
	for range crashes {
		waitLines(t, records, 20)
		waitLines(t, bulk, 1)
		killAndStart(t)
		waitLines(t, records, 20)
		waitLines(t, bulk, 1)
	}
	w.g.MustRun(t, mountTime, "touch /tmp/stop")
	acknowledged, written := finish(t, records), finish(t, bulk)
	w.g.MustRun(t, mountTime, "rm /tmp/stop /tmp/bulk")
	checkRecords(t, w, strings.Count(acknowledged, "\n"))
	checkBulk(t, w, written)
}

// checkRecords compares the file with the records that were acknowledged.
func checkRecords(t *testing.T, w *work, n int) {
	t.Helper()
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "record %08d\n", i+1)
	}
	same(t, "records on the server", w.serverSide(t, "cat records"), want.String())
	t.Logf("%d records acknowledged", n)
}

// checkBulk compares checksums with the last ones printed for each file.
func checkBulk(t *testing.T, w *work, written string) {
	t.Helper()
	last := map[string]string{}
	for line := range strings.Lines(written) {
		name, sum, _ := strings.Cut(line, " ")
		last[name] = sum
	}
	for name, sum := range last {
		same(t, name+" on the server", w.serverSide(t, "echo $(sha256sum <"+name+")"), sum)
	}
}

func startScript(t testing.TB, g *guest.Guest, script string) *guest.Command {
	t.Helper()
	cmd, err := g.Start(script)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cmd.Kill)
	return cmd
}

// waitLines waits until a script has printed n more lines.
func waitLines(t testing.TB, cmd *guest.Command, n int) {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	stdout, _ := cmd.Output()
	n += strings.Count(stdout, "\n")
	if err := cmd.Watch(ctx, func(s string) bool { return strings.Count(s, "\n") >= n }); err != nil {
		t.Fatal(err)
	}
}

// ended waits until a script has ended, whatever its exit code.
func ended(t testing.TB, cmd *guest.Command) guest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), mountTime) // also in a cleanup
	defer cancel()
	got, err := cmd.Wait(ctx)
	if err != nil {
		t.Errorf("a script in the guest: %v", err)
	}
	return got
}

// finish waits until a script has ended and returns its output.
func finish(t testing.TB, cmd *guest.Command) string {
	t.Helper()
	ctx, cancel := limit(t, clientTime)
	defer cancel()
	got, err := cmd.Wait(ctx)
	if err != nil || got.Code != 0 {
		t.Fatalf("a script in the guest: code %d, error %v: %s", got.Code, err, got.Stderr)
	}
	return got.Stdout
}

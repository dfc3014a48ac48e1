package child

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// played is a shell script that plays rdmad.
func played(t *testing.T, ctx context.Context, script string, message func(string)) (*Daemon, error) {
	t.Helper()
	d, err := StartDaemon(ctx, exec.Command("sh", "-c", script), message)
	if err == nil {
		t.Cleanup(d.Kill)
	}
	return d, err
}

// TestDaemon reads what rdmad logs: in parts of lines, with a service after others, and with
// text that is not JSON.
func TestDaemon(t *testing.T) {
	said := make(chan string, 10)
	d, err := played(t, t.Context(), `exec >&2
echo '{"msg":"listening","what":"control plane","address":"a:1"}'
echo no JSON
printf '{"msg":"listening","what":"listener",'
echo '"listener":"nfs","service":"export","address":"a:2"}'
echo '{"msg":"listening","what":"service","service":"export","address":"a:3"}'
echo '{"msg":"ready"}'
echo '{"msg":"ready"}'
echo '{"msg":"configuration reloaded"}'
exec sleep 1000`, func(msg string) { said <- msg })
	if err != nil {
		t.Fatal(err)
	}
	for what, want := range map[string]string{
		"control plane": "a:1", "listener": "a:2", "listener nfs": "a:2", "listener export": "", "service": "a:3", "service export": "a:3", "metrics": "",
	} {
		if got := d.Address(what); got != want {
			t.Errorf("%s is at %q, not %q", what, got, want)
		}
	}
	var all []string
	for !slices.Contains(all, "configuration reloaded") {
		all = append(all, <-said)
	}
	if len(all) != 6 || all[3] != "ready" {
		t.Errorf("messages %q", all)
	}
	if log := d.Log(); !strings.Contains(log, "no JSON\n") || d.Logged() != int64(len(log)) {
		t.Errorf("%d bytes logged:\n%s", d.Logged(), log)
	}
}

// TestFlood stores the first part of a long log.
func TestFlood(t *testing.T) {
	d, err := played(t, t.Context(), `echo '{"msg":"ready"}' >&2; head -c 20000000 /dev/zero >&2`, nil)
	if err != nil {
		t.Fatal(err)
	}
	<-d.Done()
	if n := len(d.Log()); n != keptLog || d.Logged() != 20000016 {
		t.Errorf("%d of %d bytes stored", n, d.Logged())
	}
}

func TestDaemonDoesNotStart(t *testing.T) {
	_, err := played(t, t.Context(), "echo no luck >&2; exit 2", nil)
	if err == nil || err.Error() != "rdmad did not start: no luck (exit status 2)" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := played(t, ctx, "exec sleep 1000", nil); !errors.Is(err, enough) {
		t.Error(err)
	}
}

package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSays: each message arrives at a service manager's socket.
func TestSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	n := New(slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		say  func()
		want string
	}{
		{n.Ready, `^READY=1$`},
		{n.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\n$`},
		{func() { n.Status("all is well") }, `^STATUS=all is well$`},
		{n.Stopping, `^STOPPING=1$`},
		{func() { n.Status("too late"); n.Ready() }, `^READY=1$`},
	} {
		c.say()
		buf := make([]byte, 100)
		size, err := manager.Read(buf)
		if err != nil || !regexp.MustCompile(c.want).Match(buf[:size]) {
			t.Errorf("the service manager was told %q, %v, want %s", buf[:size], err, c.want)
		}
	}
}

// TestDeafServiceManager: a service manager that reads nothing holds up neither the end nor what else
// there is to say.
func TestDeafServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	address := &net.UnixAddr{Name: path, Net: "unixgram"}
	manager, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	full, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	raw, err := full.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		for err == nil { // until the queue is full
			_, err = unix.Write(int(fd), []byte("READY=1"))
		}
	})
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	var log bytes.Buffer
	n := New(slog.New(slog.NewTextHandler(&log, nil)))
	said := make(chan struct{})
	go func() {
		defer close(said)
		n.Status("all is well")
		n.Stopping()
	}()
	select {
	case <-said:
		if !strings.Contains(log.String(), "cannot notify the service manager") {
			t.Errorf("the log: %s", &log)
		}
	case <-time.After(time.Minute):
		t.Error("waits for the service manager")
		manager.Close()
		<-said
	}
}

func TestWithoutServiceManager(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS"} {
		t.Setenv(name, "")
	}
	var log bytes.Buffer
	n := New(slog.New(slog.NewTextHandler(&log, nil)))
	n.Ready()
	n.Watch(t.Context(), func(context.Context) error {
		t.Error("looked without a watchdog")
		return nil
	})
	if l, err := Sockets(); len(l) != 0 || err != nil {
		t.Errorf("sockets %v, %v", l, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

func TestBadSurroundings(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "often")
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	var log bytes.Buffer
	n := New(slog.New(slog.NewTextHandler(&log, nil)))
	n.Ready()
	for _, want := range []string{"rdmad cannot answer the service manager's watchdog", "cannot notify the service manager"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("nothing of %q in the log:\n%s", want, &log)
		}
	}
}

// watched returns a notifier with a watchdog of 8 seconds, and its messages.
func watched(log *bytes.Buffer) (*Notifier, *[]string) {
	said := new([]string)
	return &Notifier{
		log: slog.New(slog.NewTextHandler(log, nil)), watchdog: 8 * time.Second,
		tell: func(s string) error { *said = append(*said, s); return nil },
	}, said
}

// TestWatch: there are four looks in the watchdog's time.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n, said := watched(&log)
		ctx, cancel := context.WithTimeout(t.Context(), 79*time.Second)
		defer cancel()
		n.Watch(ctx, func(context.Context) error { return nil })
		if got := strings.Join(*said, " "); got != strings.TrimSpace(strings.Repeat("WATCHDOG=1 ", 40)) {
			t.Errorf("in 79 s it said %s", got)
		}
	})
}

// TestWatchFails: the notifier is silent while works fails.
func TestWatchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		n, said := watched(&log)
		ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
		defer cancel()
		n.Watch(ctx, func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("a look without a limit")
			}
			if len(*said) < 3 {
				return nil
			}
			return errors.New("stuck")
		})
		if len(*said) != 3 {
			t.Errorf("said %d times that it works, want 3", len(*said))
		}
		if got := strings.Count(log.String(), "error=stuck"); got != 7 {
			t.Errorf("%d lines of the log, want 7:\n%s", got, &log)
		}
	})
}

// TestWatchHangs: a look never returns, and the watchdog gets no message.
func TestWatchHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, said := watched(new(bytes.Buffer))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n.Watch(ctx, func(context.Context) error {
			<-ctx.Done()
			return nil
		})
		if len(*said) != 0 {
			t.Errorf("said %v while it hung, and after its end", *said)
		}
	})
}

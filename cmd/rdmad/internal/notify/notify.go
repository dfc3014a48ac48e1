// Package notify connects rdmad with a service manager: rdmad reports its state
// (sd_notify(3)) and takes the sockets that were bound for it (sd_listen_fds(3)). Without a
// service manager it does nothing.
//
// The caller calls Ready once it serves, encloses each reload in Reloading and Ready, calls
// Stopping when it begins to end, and runs Watch meanwhile.
package notify

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier notifies the service manager that the environment names. Its methods are safe for
// concurrent use.
type Notifier struct {
	log      *slog.Logger
	watchdog time.Duration // silence after which rdmad counts as hung; 0 means no watchdog
	tell     func(string) error

	mu       sync.Mutex
	stopping bool // the line of Status would hide that
}

// New reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. It logs a warning if the watchdog's
// settings are not valid, because the service manager will then end rdmad.
func New(log *slog.Logger) *Notifier {
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("rdmad cannot answer the service manager's watchdog", "error", err)
	}
	return &Notifier{log: log, watchdog: watchdog, tell: tell}
}

// patience is how long a message waits for a service manager that reads none, because it hangs.
const patience = time.Second

// tell sends a message, as daemon.SdNotify does without a limit of time.
func tell(state string) error {
	to := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	if to.Name == "" {
		return nil
	}
	conn, err := net.DialUnix(to.Net, nil, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

// Ready reports that rdmad serves according to its configuration.
func (n *Notifier) Ready() { n.say(daemon.SdNotifyReady) }

// Reloading reports that the configuration is being read again. Ready ends that. The message
// includes the time, which units of Type=notify-reload need.
func (n *Notifier) Reloading() {
	n.say(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping reports that rdmad lets calls in flight finish and then ends.
func (n *Notifier) Stopping() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.say(daemon.SdNotifyStopping)
}

// Status reports a line about rdmad's health, which systemctl status shows. After Stopping it
// does nothing.
func (n *Notifier) Status(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopping {
		n.say("STATUS=" + text)
	}
}

func (n *Notifier) say(state string) {
	if err := n.tell(state); err != nil {
		n.log.Warn("cannot notify the service manager", "what", state, "error", err)
	}
}

// looks is the number of looks in the watchdog's time. With several, a look that is late or
// fails on a busy machine does not end rdmad.
const looks = 4

// Watch notifies the service manager's watchdog while works succeeds, until ctx ends. If works
// returns an error, Watch logs it and skips one notification. If works does not return,
// notifications stop, and the watchdog ends the hung rdmad. Without a watchdog Watch returns
// at once.
func (n *Notifier) Watch(ctx context.Context, works func(context.Context) error) {
	if n.watchdog <= 0 {
		return
	}
	period := n.watchdog / looks
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		n.look(ctx, period, works)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *Notifier) look(ctx context.Context, limit time.Duration, works func(context.Context) error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := works(within)
	switch {
	case ctx.Err() != nil: // rdmad is ending: the watchdog no longer matters
	case err != nil:
		n.log.Error("rdmad does not work; it does not answer the service manager's watchdog", "error", err)
	default:
		n.say(daemon.SdNotifyWatchdog)
	}
}

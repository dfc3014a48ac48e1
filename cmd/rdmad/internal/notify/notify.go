// Package notify is what rdmad and a service manager have to do with each
// other: rdmad says how it is (sd_notify(3)) and takes the sockets that were
// bound for it (sd_listen_fds(3)). Without a service manager it does nothing.
//
// The caller says Ready once it serves, wraps each reload in Reloading and
// Ready, says Stopping when it begins to end, and runs Watch meanwhile.
package notify

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Notifier talks to the service manager that the environment names. Its
// methods may be called from any goroutine.
type Notifier struct {
	log      *slog.Logger
	watchdog time.Duration // without a word after which rdmad counts as hung; 0 for none
	tell     func(string) error
}

// New reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. A watchdog that
// can't be understood is a warning: the service manager will end rdmad.
func New(log *slog.Logger) *Notifier {
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not served", "error", err)
	}
	return &Notifier{log: log, watchdog: watchdog, tell: func(state string) error {
		_, err := daemon.SdNotify(false, state)
		return err
	}}
}

// Ready says that rdmad serves what its configuration says.
func (n *Notifier) Ready() { n.say(daemon.SdNotifyReady) }

// Reloading says that the configuration is being read again; Ready ends it.
// The time is for units of Type=notify-reload, which need it.
func (n *Notifier) Reloading() {
	n.say(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping says that rdmad lets calls in flight finish and then ends.
func (n *Notifier) Stopping() { n.say(daemon.SdNotifyStopping) }

func (n *Notifier) say(state string) {
	if err := n.tell(state); err != nil {
		n.log.Warn("service manager not told", "what", state, "error", err)
	}
}

// looks is how many looks fit into the watchdog's time, so that one that is
// late or fails on a busy machine is not the end.
const looks = 4

// Watch keeps the service manager's watchdog content for as long as works
// says that rdmad does its work, until ctx ends. An error of works is logged
// and costs the look; one that doesn't return costs them all, so that the
// watchdog ends a rdmad that hangs. Without a watchdog it returns at once.
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
	case ctx.Err() != nil: // ending, so nobody asks any more
	case err != nil:
		n.log.Error("rdmad does not do its work; the service manager's watchdog is not told otherwise", "error", err)
	default:
		n.say(daemon.SdNotifyWatchdog)
	}
}

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// reload gives rdmad a file that needs a port in use, while calls are in flight, and then frees
// the port.
func (d *demo) reload(ctx context.Context) error {
	d.title("Reload a file that needs a port in use, while calls are in flight")
	taken, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer taken.Close()
	traffic, err := d.startTraffic(ctx)
	if err != nil {
		return err
	}
	defer traffic.end()
	more := fmt.Sprintf("  - {name: more, provider: softiwarp, address: %q, service: test}\n", taken.Addr())
	d.say("+ %s", strings.TrimSpace(more))
	if err := os.WriteFile(filepath.Join(d.dir, "rdmad.yaml"), []byte(configuration+more), 0o600); err != nil {
		return err
	}
	d.daemon.Signal(syscall.SIGHUP)
	if err := d.daemon.reloaded(ctx, "configuration not reloaded; nothing changed"); err != nil {
		return err
	}
	d.say("$ rdmactl conditions")
	out, _ := d.ask(ctx, "conditions") // it ends with 1 because one is not OK
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "STATUS") || strings.Contains(line, "reload") {
			d.say("  %s", strings.TrimRight(line, "\n"))
		}
	}
	d.say("The port becomes free. rdmad tries again by itself.")
	taken.Close()
	if err := d.daemon.reloaded(ctx, "configuration reloaded"); err != nil {
		return err
	}
	traffic.end()
	d.say("%d calls meanwhile, none lost", traffic.calls)
	return traffic.err
}

// reloaded waits for a message of a reload.
func (dm *daemon) reloaded(ctx context.Context, want string) error {
	for {
		select {
		case got := <-dm.reloads:
			if got == want {
				return nil
			}
		case <-dm.Done():
			return fmt.Errorf("rdmad ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

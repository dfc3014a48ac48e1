package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/interop/guest/image"
)

const (
	// bootTime is enough for an emulated guest on a busy machine. On an idle
	// one booting takes a few seconds.
	bootTime = 5 * time.Minute
	// startTries is how often QEMU is started if booting fails for a known
	// transient reason.
	startTries = 3
)

// errPortTaken means that QEMU could not listen on the port chosen for it.
var errPortTaken = errors.New("guest: a forwarded port was taken")

// errHalfPatched means that the kernel died while it patched its own code at
// boot: an emulated processor ran a half-patched instruction. This is a fault
// of the emulator. Nothing of ours has run in the guest yet.
var errHalfPatched = errors.New("guest: the emulated kernel ran code that it was patching")

// Guest is a running kernel guest. Its methods are safe for concurrent use.
type Guest struct {
	ShareDir string // directory of the host that is /host in the guest

	process  *child.Process
	session  *session
	console  *console
	forwards map[int]int
	dir      string // directory of socket and initramfs

	examining sync.Mutex // held while the report is made
	report    string     // of examine
}

// Start boots a guest from an image. The program agent becomes its /init, and
// shareDir its /host. The caller must call Stop.
func Start(ctx context.Context, img image.Image, agent, shareDir string, o Options) (*Guest, error) {
	o = o.withDefaults(shareDir)
	accel, err := accelerator(img)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rdmad-guest-") // short: a socket's path is limited
	if err != nil {
		return nil, fmt.Errorf("guest: %w", err)
	}
	initramfs, err := completeInitramfs(dir, img, agent)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m := machine{options: o, accel: accel, kernel: img.Kernel, initramfs: initramfs,
		agentSock: filepath.Join(dir, "agent")}
	for try := 1; ; try++ {
		g := &Guest{ShareDir: shareDir, dir: dir, console: &console{}}
		err = g.boot(ctx, m)
		if err == nil {
			if !o.Shell {
				go g.watchQuiet(quietTime)
			}
			return g, nil
		}
		if !errors.Is(err, errPortTaken) && !errors.Is(err, errHalfPatched) || try == startTries {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// completeInitramfs appends the agent to the image's initramfs.
func completeInitramfs(dir string, img image.Image, agent string) (string, error) {
	path := filepath.Join(dir, "initramfs")
	if err := image.WriteAgent(path, agent); err != nil {
		return "", err
	}
	base, err := os.Open(img.Initramfs)
	if err != nil {
		return "", fmt.Errorf("guest: %w", err)
	}
	defer base.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", fmt.Errorf("guest: %w", err)
	}
	_, err = f.ReadFrom(base)
	return path, errors.Join(err, f.Close())
}

// boot starts QEMU and waits for the agent. On an error it leaves nothing
// running.
func (g *Guest) boot(ctx context.Context, m machine) (err error) {
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if g.forwards, err = freePorts(m.options.Forward); err != nil {
		return err
	}
	m.forwards = g.forwards
	listener, err := net.Listen("unix", m.agentSock)
	if err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	defer listener.Close()
	cmd := exec.Command(qemuProgram, m.args()...)
	attachConsole(cmd, g.console, m.options)
	if g.process, err = child.Start(cmd); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	if err := g.connect(ctx, listener); err != nil {
		g.process.Kill()
		return g.explain(err)
	}
	return nil
}

// connect waits until QEMU connects to the agent's socket and the agent sends
// Ready.
func (g *Guest) connect(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	go func() {
		<-g.process.Done()
		listener.Close()
	}()
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("waiting for QEMU: %w", err)
	}
	g.session = newSession(conn)
	g.session.examine = g.examine
	go g.session.run()
	select {
	case <-g.session.ready:
		return nil
	case <-g.process.Done():
		return ErrDied
	case <-ctx.Done():
		return fmt.Errorf("guest: not up in time: %w", ctx.Err())
	}
}

// explain adds the reason that the console shows to a boot error.
func (g *Guest) explain(err error) error {
	text := g.console.String()
	if strings.Contains(text, "Could not set up host forwarding rule") {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	if strings.Contains(text, "Oops: int3: 0000") {
		return fmt.Errorf("%w: %w\nconsole:\n%s", errHalfPatched, err, text)
	}
	return fmt.Errorf("guest: boot failed: %w\nconsole:\n%s", err, text)
}

// Start starts a script in the guest and returns at once.
func (g *Guest) Start(script string) (*Command, error) { return g.session.start(script) }

// Run runs a shell script in the guest and waits until it ends; see
// Command.Wait.
func (g *Guest) Run(ctx context.Context, script string) (Result, error) {
	cmd, err := g.Start(script)
	if err != nil {
		return Result{}, err
	}
	return cmd.Wait(ctx)
}

// RunTalking is Run for a script that takes as long as it takes, but prints
// something to its standard output at least once in every silence.
func (g *Guest) RunTalking(ctx context.Context, silence time.Duration, script string) (Result, error) {
	cmd, err := g.Start(script)
	if err != nil {
		return Result{}, err
	}
	for printed := 0; err == nil; {
		within, cancel := context.WithTimeout(ctx, silence)
		err = cmd.Watch(within, func(stdout string) bool {
			more := len(stdout) > printed
			printed = len(stdout)
			return more
		})
		cancel()
	}
	return cmd.Wait(ctx) // the script has ended, or is not waited for any more
}

// HostPort returns the TCP port of 127.0.0.1 that is forwarded to guestPort, or
// 0 if Options.Forward does not have guestPort.
func (g *Guest) HostPort(guestPort int) int { return g.forwards[guestPort] }

// Console returns the last part of the console.
func (g *Guest) Console() string { return g.console.String() }

// Oops returns the line by which the kernel said that it is broken, or "".
func (g *Guest) Oops() string { return g.console.Oops() }

// Done returns a channel that is closed when the guest has ended for any
// reason.
func (g *Guest) Done() <-chan struct{} { return g.process.Done() }

// Stop ends the guest like a power failure and removes its files.
func (g *Guest) Stop() error {
	g.process.Kill()
	g.session.conn.Close()
	return os.RemoveAll(g.dir)
}

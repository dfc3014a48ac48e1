package siege

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// Options are the options of Run.
type Options struct {
	// Rdmad is the path of the program. Attacker is the command that runs
	// Execute; Run appends the attack's name and a Target as JSON.
	Rdmad    string
	Attacker []string
	// Dir is an empty directory for files. Other users must be able to enter
	// it.
	Dir string
	// Phase is the time of each of the three phases.
	Phase time.Duration
	// Short ends phases as soon as the clients have made a few calls. rdmad
	// gets less memory, and latencies are not judged.
	Short bool
	// Apart makes the attack on an rdmad that the clients do not use. The
	// latencies then show what the attack costs on the same processors by
	// itself, which rdmad cannot prevent.
	Apart bool
	// Group, if not "", is the attackers' control group (IdleGroup).
	Group string
	// Progress, if not nil, receives messages about the progress.
	Progress func(format string, args ...any)
}

// ShortPhase is the shortest phase of the short form.
const ShortPhase = 200 * time.Millisecond

// limits.memory of the short form, in bytes, and the factor by which the
// default is larger.
const (
	shortMemory = 128 << 20
	shortScale  = defaultMemory / shortMemory
)

// run is one running attack.
type run struct {
	Options
	attack    *Attack
	daemon    *daemon
	attacked  *daemon // daemon, unless Apart
	innocents *innocents
}

// Run makes one attack on an rdmad of its own. The outcome lists the goals that
// rdmad missed. An error means that the attack could not be made.
func Run(ctx context.Context, a *Attack, o Options) (out Outcome, err error) {
	r := &run{Options: o, attack: a}
	if r.Progress == nil {
		r.Progress = func(string, ...any) {}
	}
	out = Outcome{Name: a.Name, Does: a.Does}
	memory, scale := int64(0), 1
	if o.Short {
		memory, scale = shortMemory, shortScale
	}
	if r.daemon, err = startDaemon(o.Rdmad, o.Dir, a, memory); err != nil {
		return out, err
	}
	r.attacked = r.daemon
	if o.Apart {
		if r.attacked, err = r.another(memory); err != nil {
			return out, errors.Join(err, r.daemon.stop())
		}
		defer func() { err = errors.Join(err, r.attacked.stop()) }()
	}
	r.attacked.target.Scale = scale
	p, err := softiwarp.New(softiwarp.Config{})
	if err == nil {
		r.innocents = newInnocents(r.daemon.target, p)
		err = r.phases(ctx, &out)
		r.innocents.close()
		out.Failures = append(out.Failures, problem("clients", p.Close())...)
	}
	out.Failures = append(out.Failures, problem("end", r.daemon.stop())...)
	out.judge(r.daemon.memory, !o.Short)
	return out, err
}

func problem(what string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{what + ": " + err.Error()}
}

// another starts a second rdmad.
func (r *run) another(memory int64) (*daemon, error) {
	dir := filepath.Join(r.Dir, "apart")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return startDaemon(r.Rdmad, dir, r.attack, memory)
}

// phases runs the three phases.
func (r *run) phases(ctx context.Context, out *Outcome) (err error) {
	if out.Before, err = r.phase(ctx, "before", nil); err != nil {
		return err
	}
	at, err := r.startAttacker()
	if err != nil {
		return err
	}
	out.During, err = r.phase(ctx, "during", at.ready)
	var ended error
	out.Tally, ended = at.stop()
	if err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	if out.After, err = r.phase(ctx, "after", nil); err == nil {
		out.After.Descriptors = r.settle(out.Before.Descriptors)
	}
	return err
}

// phase lets the innocent clients work. If there is an attacker, the phase's
// time begins once the attacker is in position. Calls before that count, too.
func (r *run) phase(ctx context.Context, name string, ready <-chan struct{}) (ph Phase, err error) {
	if err := r.daemon.resetPeak(); err != nil {
		return ph, err
	}
	began, logged := time.Now(), r.daemon.process.Logged()
	over := make(chan struct{})
	ph.Clients = map[string]Latencies{}
	var mu sync.Mutex
	var working sync.WaitGroup
	for _, in := range r.innocents.all {
		working.Go(func() {
			l := in.work(ctx, over)
			mu.Lock()
			ph.Clients[in.name] = l
			mu.Unlock()
		})
	}
	ph.Descriptors, ph.Unfinished = r.watch(ctx, name, ready)
	close(over)
	working.Wait()
	ph.Seconds = time.Since(began).Seconds()
	ph.RSS, ph.LogBytes, ph.Goroutines = r.daemon.peakRSS(), r.daemon.process.Logged()-logged, r.innocents.goroutines.Load()
	return ph, context.Cause(ctx)
}

// tick is how often rdmad's descriptors are counted.
const tick = 20 * time.Millisecond

// watch waits until a phase is over. It returns the most descriptors that rdmad
// had, and why the phase could not be finished, or "".
func (r *run) watch(ctx context.Context, name string, ready <-chan struct{}) (descriptors int, unfinished string) {
	began := time.Now()
	said := began
	var since time.Time
	if ready == nil {
		since = began
	}
	for time.Since(began) < r.Phase+hung && ctx.Err() == nil {
		select {
		case <-ready:
			since, ready = time.Now(), nil
			r.Progress("%s: in position after %v", r.attack.Name, time.Since(began).Round(time.Millisecond))
		case <-r.daemon.process.Done():
			return descriptors, "rdmad has ended"
		case <-time.After(tick):
		}
		descriptors = max(descriptors, r.daemon.descriptors())
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			r.Progress("%s: %s the attack, %v", r.attack.Name, name, time.Since(began).Round(time.Second))
		}
		if unfinished = r.unfinished(); !since.IsZero() && time.Since(since) >= r.Phase && unfinished == "" {
			return descriptors, ""
		}
	}
	if since.IsZero() {
		unfinished = "the attacker did not get into position"
	}
	return descriptors, unfinished
}

// unfinished reports a client that has made fewer calls than a short phase
// needs, or "".
func (r *run) unfinished() string {
	for _, in := range r.innocents.all {
		if made := in.made.Load(); r.Short && made < int64(in.least) {
			return fmt.Sprintf("%s has made %d calls of %d", in.name, made, in.least)
		}
	}
	return ""
}

// settle waits until rdmad has closed the attacker's descriptors. It returns
// the number of open descriptors.
func (r *run) settle(before int) (descriptors int) {
	for began := time.Now(); time.Since(began) < hung; time.Sleep(tick) {
		if descriptors = r.daemon.descriptors(); descriptors <= before+spareDescriptors {
			break
		}
	}
	return descriptors
}

// attacker is the attacking process.
type attacker struct {
	process *child.Process
	stdin   io.Closer
	ready   chan struct{}
	out     lines
	errs    bytes.Buffer
}

// lines stores the output of an attacker.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	once sync.Once
	at   *attacker
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	if bytes.HasPrefix(l.text.Bytes(), []byte("ready\n")) {
		l.once.Do(func() { close(l.at.ready) })
	}
	return n, err
}

func (r *run) startAttacker() (*attacker, error) {
	target, err := json.Marshal(r.attacked.target)
	if err != nil {
		return nil, err
	}
	at := &attacker{ready: make(chan struct{})}
	at.out.at = at
	args := append(r.Attacker[:len(r.Attacker):len(r.Attacker)], r.attack.Name, string(target))
	if !r.Short { // the short form judges no latency
		// Attackers of other machines would not take this one's processors. A process of
		// SCHED_IDLE mostly gives way at once, but one of a low priority only when its time slice is over.
		args = append([]string{"chrt", "-i", "0"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &at.out, &at.errs
	// The attacker also ends when this pipe closes, because a process that
	// changed its user is not killed when its parent dies.
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd.Stdin, at.stdin = in, out
	if at.process, err = child.Start(cmd); err != nil {
		out.Close()
		return nil, err
	}
	if r.Group != "" {
		err = enter(r.Group, at.process.Pid())
	}
	if err != nil {
		_, ended := at.stop()
		return nil, errors.Join(err, ended)
	}
	return at, nil
}

// stop ends the attacker and returns its Tally.
func (at *attacker) stop() (t Tally, err error) {
	at.process.Signal(syscall.SIGTERM)
	at.stdin.Close()
	select {
	case <-at.process.Done():
	case <-time.After(hung):
		at.process.Kill()
	}
	if err := at.process.Wait(); err != nil {
		return t, fmt.Errorf("attacker: %w\n%s", err, &at.errs)
	}
	at.out.mu.Lock()
	defer at.out.mu.Unlock()
	for s := bufio.NewScanner(&at.out.text); s.Scan(); {
		if s.Text() != "ready" {
			err = json.Unmarshal(s.Bytes(), &t)
		}
	}
	return t, err
}

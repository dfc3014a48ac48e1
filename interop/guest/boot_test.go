package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// scriptTime is enough for any short script under emulation.
const scriptTime = 5 * time.Minute

func TestGuest(t *testing.T) {
	g := Boot(t, Options{})
	t.Run("exit code and streams", func(t *testing.T) { testResult(t, g) })
	t.Run("many at once", func(t *testing.T) { testConcurrent(t, g) })
	t.Run("interruption kills", func(t *testing.T) { testInterrupted(t, g) })
	t.Run("watch", func(t *testing.T) { testWatch(t, g) })
	t.Run("share", func(t *testing.T) { testShare(t, g) })
	t.Run("kernel NFS", func(t *testing.T) { testKernelNFS(t, g) })
}

// TestNewerKernel lets the newer kernel's client work with its own server.
func TestNewerKernel(t *testing.T) {
	g := Boot(t, Options{Kernel: image.Newer})
	if release := g.MustRun(t, scriptTime, "uname -r"); !strings.HasPrefix(release, "6.12.") {
		t.Errorf("the newer kernel is %s, want 6.12", release)
	}
	testKernelNFS(t, g)
}

func testResult(t *testing.T, g *Guest) {
	got, err := g.Run(t.Context(), "echo out; echo err >&2; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Result{Stdout: "out\n", Stderr: "err\n", Code: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got, err = g.Run(t.Context(), "kill -9 $$")
	if err != nil || got.Code != 128+9 {
		t.Errorf("killed script: code %d, error %v, want 137", got.Code, err)
	}
}

// testConcurrent starts scripts that end only when all of them run.
func testConcurrent(t *testing.T, g *Guest) {
	const n = 8
	script := fmt.Sprintf(`echo x >>/tmp/there; while [ $(wc -l </tmp/there) -lt %d ]; do sleep 0.05; done`, n)
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			got, err := g.Run(ctx, fmt.Sprintf("%s; yes line%d | head -n 20000", script, i))
			if err != nil || got.Code != 0 {
				t.Errorf("script %d: code %d, error %v", i, got.Code, err)
			}
			if want := strings.Repeat(fmt.Sprintf("line%d\n", i), 20000); got.Stdout != want {
				t.Errorf("script %d printed %d bytes, want %d of its own", i, len(got.Stdout), len(want))
			}
		})
	}
	wg.Wait()
}

func testInterrupted(t *testing.T, g *Guest) {
	cmd, err := g.Start("echo $$; sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer time.AfterFunc(time.Second, cancel).Stop()
	if _, err := cmd.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was interrupted", err)
	}
	after, err := cmd.Wait(t.Context())
	if err != nil || after.Code != 128+9 {
		t.Errorf("after the kill: code %d, error %v, want 137", after.Code, err)
	}
	g.MustRun(t, scriptTime, "! grep -q sleep /proc/[0-9]*/comm")
}

func testWatch(t *testing.T, g *Guest) {
	cmd, err := g.Start("for i in 1 2 3; do echo line; sleep 0.1; done; read never </dev/ttyS0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	three := func(stdout string) bool { return strings.Count(stdout, "line") == 3 }
	if err := cmd.Watch(ctx, three); err != nil {
		t.Error(err)
	}
	cmd.Kill()
	if _, err := cmd.Wait(ctx); err != nil {
		t.Error(err)
	}
	if err := cmd.Watch(ctx, func(string) bool { return false }); err == nil {
		t.Error("a script that has ended is watched without end")
	}
}

func testShare(t *testing.T, g *Guest) {
	path := filepath.Join(g.ShareDir, "from-host")
	if err := os.WriteFile(path, []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.MustRun(t, scriptTime, "tr a-z A-Z </host/from-host >/host/from-guest")
	got, err := os.ReadFile(filepath.Join(g.ShareDir, "from-guest"))
	if err != nil || string(got) != "HELLO\n" {
		t.Errorf("the guest wrote %q, error %v", got, err)
	}
}

// testKernelNFS mounts the guest's kernel server with its kernel client, over
// RDMA. It shows that siw, the modules and the programs work.
func testKernelNFS(t *testing.T, g *Guest) {
	g.UseRDMA(t, SIWPlain)
	g.ServeNFS(t)
	out := g.MustRun(t, 5*time.Minute, `set -e
mkdir -p /mnt
dd if=/dev/urandom of=/tmp/data bs=64k count=128 2>/dev/null
for vers in 3,mountport=20048,mountproto=tcp,nolock 4.2,sec=sys; do
	path=/export
	case $vers in 4*) path=/ ;; esac
	mount.nfs 10.0.2.15:$path /mnt -o proto=rdma,port=20049,vers=$vers
	cp /tmp/data /mnt/data
	umount /mnt
	cmp /tmp/data /export/data
	mount.nfs 10.0.2.15:$path /mnt -o proto=rdma,port=20049,vers=$vers
	cmp /tmp/data /mnt/data
	grep xprt: /proc/self/mountstats
	umount /mnt
	rm /export/data
done`)
	if n := strings.Count(out, "xprt:\trdma "); n != 2 {
		t.Errorf("%d mounts over RDMA, want 2:\n%s", n, out)
	}
}

func TestDeadGuest(t *testing.T) {
	img, agent := prepare(t, image.Stock)
	g, err := Start(t.Context(), img, agent, t.TempDir(), Options{MemoryMiB: 1024, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}()
	waiting, err := g.Start("sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptTime)
	defer cancel()
	if _, err := g.Run(ctx, "echo c >/proc/sysrq-trigger"); !errors.Is(err, ErrDied) {
		t.Errorf("the script that crashed the kernel: error %v, want ErrDied", err)
	}
	if _, err := waiting.Wait(ctx); !errors.Is(err, ErrDied) {
		t.Errorf("a script under way: error %v, want ErrDied", err)
	}
	if _, err := g.Run(ctx, "true"); !errors.Is(err, ErrDied) {
		t.Errorf("a script afterwards: error %v, want ErrDied", err)
	}
	<-g.Done()
	if g.Oops() == "" {
		t.Errorf("no oops seen in the console:\n%s", g.Console())
	}
}

// Package container_test runs what is in the container image as a container does:
// chrooted, in namespaces of its own, as the image's user without any capability.
package container_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds how long the test waits for what must happen.
const patience = 5 * time.Minute

// user is the image's, as in the Containerfile.
const user = "65532"

// contained is a command in the container. A user other than root gets a user
// namespace, where the image's user is that user.
func contained(ctx context.Context, root string, args []string) *exec.Cmd {
	const enter = `mount --rbind /proc "$0/proc" && exec "$@"`
	line := []string{"-mni", "sh", "-c", enter, root, "chroot", "--userspec=" + user + ":" + user, "--groups=", root}
	if os.Getuid() != 0 {
		line = []string{"-Urmni", "sh", "-c", enter, root, "unshare", "-U", "--map-user=" + user, "--map-group=" + user, "-R", root}
	}
	cmd := exec.CommandContext(ctx, "unshare", append(line, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// image builds the programs, lays out the image twice, and unpacks it.
func image(t *testing.T) (root string) {
	t.Helper()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "../../cmd/rdmad", "../../cmd/rdmactl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	mustRun(t, build)
	var sums [2][sha256.Size]byte
	var dir string
	for i, mask := range []string{"022", "077"} {
		dir = t.TempDir()
		lay := exec.Command("sh", "-c", "umask "+mask+"; exec ./rootfs.sh "+bin+" "+dir)
		lay.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "TZ=Asia/Tokyo")
		mustRun(t, lay)
		text, err := os.ReadFile(filepath.Join(dir, "rootfs.tar"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(text)
	}
	if sums[0] != sums[1] {
		t.Error("the same programs give two images")
	}
	root = filepath.Join(dir, "unpacked")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, exec.Command("tar", "-xf", filepath.Join(dir, "rootfs.tar"), "-C", root))
	for up := root; up != os.TempDir() && up != "/"; up = filepath.Dir(up) { // for the image's user
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mustRun(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// commands returns the arguments of an instruction of the Containerfile.
func commands(t *testing.T, instruction string) (args []string) {
	t.Helper()
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^` + instruction + ` .*?(\[.*\])$`).FindSubmatch(text)
	if list == nil {
		t.Fatalf("the Containerfile has no %s", instruction)
	}
	if err := json.Unmarshal(list[1], &args); err != nil {
		t.Fatal(err)
	}
	return args
}

// TestImage runs the image's rdmad, and its health check, in a container: first
// healthy, then without its export. SIGTERM ends rdmad in order.
func TestImage(t *testing.T) {
	root := image(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := append(commands(t, "ENTRYPOINT"), commands(t, "CMD")...)
	rdmad := contained(ctx, root, start)
	var log bytes.Buffer
	rdmad.Stdout, rdmad.Stderr = &log, &log
	if err := rdmad.Start(); err != nil {
		t.Fatal(err)
	}
	healthy := func() (bool, string) {
		out, err := contained(ctx, root, commands(t, "HEALTHCHECK")).CombinedOutput()
		return err == nil, string(out)
	}
	becomes := func(want bool) {
		t.Helper()
		for {
			got, out := healthy()
			if got == want && ctx.Err() == nil {
				return
			}
			if ctx.Err() != nil {
				_ = rdmad.Wait()
				t.Fatalf("healthy is not %v: %s\nrdmad: %s", want, out, &log)
			}
		}
	}
	becomes(true)
	if err := os.Rename(filepath.Join(root, "srv/rdmad"), filepath.Join(root, "gone")); err != nil {
		t.Fatal(err)
	}
	becomes(false)
	if _, out := healthy(); !strings.Contains(out, "FAILED") {
		t.Errorf("the health check does not say what FAILED: %s", out)
	}
	if err := rdmad.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := rdmad.Wait(); err != nil {
		t.Errorf("rdmad ended with %v\n%s", err, &log)
	}
}

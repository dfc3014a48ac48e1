package posix

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// namespaceVariable is set in the test's process inside the namespace.
const namespaceVariable = "RDMAD_TEST_NAMESPACE"

// TestOneMappedUser checks that root in a user namespace without other users,
// as in a rootless container, can't act as another user and has no other
// problem.
func TestOneMappedUser(t *testing.T) {
	if os.Getenv(namespaceVariable) != "" {
		if os.Geteuid() != 0 {
			t.Fatal("not root of the namespace")
		}
		if _, ok := NewSwitcher(0, nil); ok {
			t.Error("threads can act as users that there are not")
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestOneMappedUser$")
	cmd.Env = append(os.Environ(), namespaceVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOneMappedUser") {
		t.Errorf("%v\n%s", err, out)
	}
}

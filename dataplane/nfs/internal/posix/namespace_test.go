package posix

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// namespaceVariable is set in the process within the namespace.
const namespaceVariable = "RDMAD_TEST_NAMESPACE"

// TestOneMappedUser: root of a user namespace with no other user, as in a container
// without root, can't act as others, and that is all.
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

package interop

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// printedMount matches the command that the pages print for a client's mount.
var printedMount = regexp.MustCompile(`(?m)^mount -t nfs -o (\S+) SERVER:(\S+) /mnt$`)

// testPrintedMount mounts as README.md and docs/mount.md print it, with the server's
// address and ports put in.
func testPrintedMount(t *testing.T, g *guest.Guest, r *rdmad) {
	for i, page := range []string{"../README.md", "../docs/mount.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := printedMount.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s prints no mount", page)
			continue
		}
		options := strings.NewReplacer("port=20049", "port="+portOf(r.rdma), "mountport=20048", "mountport="+portOf(r.tcp)).Replace(m[1])
		dir := fmt.Sprintf("/mnt/printed%d", i)
		out := g.MustRun(t, mountTime, fmt.Sprintf(
			"set -e; mkdir -p %[1]s; mount.nfs 10.0.2.2:%[2]s %[1]s -o %[3]s; grep ' %[1]s ' /proc/mounts; umount %[1]s", dir, m[2], options))
		if !strings.Contains(out, "proto=rdma") {
			t.Errorf("%s: the mount is\n%s", page, out)
		}
	}
}

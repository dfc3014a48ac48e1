// Package debian_test tests what makes the packages.
package debian_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestVersionsGrow: each of these words of git describe is a newer package than the one before.
func TestVersionsGrow(t *testing.T) {
	before := ""
	for _, c := range []struct{ describe, want string }{
		{"2b23527", "0~20231114221320.2b23527"},
		{"v1.0.0-alpha", "1.0.0~alpha"},
		{"v1.0.0-rc.2", "1.0.0~rc.2"},
		{"v1.0.0-rc.2-5-g0a1b2c3", "1.0.0~rc.2+5.g0a1b2c3"},
		{"v1.0.0-rc.10", "1.0.0~rc.10"},
		{"v1.0.0-rc.10-dirty", "1.0.0~rc.10+dirty"},
		{"v1.0.0", "1.0.0"},
		{"v1.0.0-5-g0a1b2c3", "1.0.0+5.g0a1b2c3"},
		{"v1.0.0-5-g0a1b2c3-dirty", "1.0.0+5.g0a1b2c3.dirty"},
		{"v1.0.0-dirty", "1.0.0+dirty"},
		{"v1.0.1-rc.1", "1.0.1~rc.1"},
	} {
		cmd := exec.Command("./version.sh")
		cmd.Env = append(os.Environ(), "VERSION="+c.describe, "SOURCE_DATE_EPOCH=1700000000")
		out, err := cmd.CombinedOutput()
		got := strings.TrimSpace(string(out))
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.describe, got, err, c.want)
		}
		if err := exec.Command("dpkg", "--compare-versions", got+"-1", "gt", before).Run(); before != "" && err != nil {
			t.Errorf("%s is not newer than %s", got, before)
		}
		before = got + "-1"
	}
}

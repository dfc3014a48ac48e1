package siege

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Attackers give way to the clients: by their scheduling class, and in a control group where
// the machine lets the test make one.
func TestAttackersGiveWay(t *testing.T) {
	group, err := IdleGroup()
	if err != nil {
		t.Log("no control group:", err)
	} else {
		t.Cleanup(func() {
			if err := os.Remove(group); err != nil {
				t.Error(err)
			}
		})
	}
	r := &run{
		Options:  Options{Attacker: []string{"sh", "-c", "trap : TERM; echo ready; cat >/dev/null; echo '{}'"}, Group: group},
		attack:   &Attack{Name: "nothing"},
		attacked: &daemon{},
	}
	at, err := r.startAttacker()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-at.ready:
	case <-time.After(hung):
		t.Error("the attacker is not ready")
	}
	attr, err := unix.SchedGetAttr(at.process.Pid(), 0)
	if err != nil || attr.Policy != unix.SCHED_IDLE {
		t.Errorf("scheduling class %+v, %v; want SCHED_IDLE", attr, err)
	}
	if group != "" {
		pids, err := os.ReadFile(group + "/cgroup.procs")
		if err != nil || !strings.Contains(string(pids), "\n") {
			t.Errorf("the group has the processes %q, %v; want the attacker's", pids, err)
		}
	}
	if _, err := at.stop(); err != nil {
		t.Error(err)
	}
}

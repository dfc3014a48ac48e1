package siege

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// IdleGroup makes a control group whose processes run only while no others want the processor.
// It returns the group's directory, which the caller removes when they have ended. The process
// needs root, and the file system of control groups in its usual place.
//
// The class SCHED_IDLE is not enough: each of its threads has a small weight, and when one has
// its turn, it runs until the next tick of the kernel's clock, for up to 4 ms (seen with Linux
// 6.18). All processes of the group together have that weight once.
func IdleGroup() (dir string, err error) {
	root := "/sys/fs/cgroup"
	if v1 := filepath.Join(root, "cpu"); exists(filepath.Join(v1, "cpu.shares")) {
		root = v1
	}
	if dir, err = os.MkdirTemp(root, "siege-"); err != nil {
		return "", err
	}
	if err = os.WriteFile(filepath.Join(dir, "cpu.idle"), []byte("1"), 0); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// enter moves a process into a control group.
func enter(group string, pid int) error {
	return os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

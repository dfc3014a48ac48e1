package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// run runs a program; an error carries what it printed.
func run(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// pipeline runs programs, each reading what the one before it writes. The last
// one's output is dropped. The error is that of every program that failed.
func pipeline(ctx context.Context, argvs ...[]string) error {
	var (
		cmds     []*exec.Cmd
		previous *os.File
		errs     []error
	)
	for i, argv := range argvs {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stderr = new(strings.Builder)
		next, err := startStage(cmd, previous, i < len(argvs)-1)
		previous = next
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", argv[0], err))
			break
		}
		cmds = append(cmds, cmd)
	}
	if previous != nil { // a stage failed to start: let its writer see it
		previous.Close()
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, cmd.Stderr))
		}
	}
	return errors.Join(errs...)
}

// startStage starts one program of a pipeline and closes this process's copies
// of its files, so that a program that ends is seen by its neighbours. It
// returns what the next stage reads.
func startStage(cmd *exec.Cmd, in *os.File, more bool) (out *os.File, err error) {
	if in != nil {
		cmd.Stdin = in
		defer in.Close()
	}
	if more {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdout, out = w, r
		defer w.Close()
	}
	return out, cmd.Start()
}

// copyFile copies a file's content, making the directories above it.
func copyFile(from, to string, perm os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, perm)
}

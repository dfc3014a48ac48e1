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

// run runs a program. An error contains its output.
func run(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// pipeline runs programs, each reading the output of the previous one. It drops
// the output of the last. The error joins those of all failed programs.
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
	if previous != nil { // a stage failed to start: its writer gets an error
		previous.Close()
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, cmd.Stderr))
		}
	}
	return errors.Join(errs...)
}

// startStage starts one program of a pipeline. It closes this process's copies
// of the program's files, so that neighbours notice when the program ends. It
// returns the file that the next stage reads.
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

// copyFile copies a file's content and creates the directories above it.
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

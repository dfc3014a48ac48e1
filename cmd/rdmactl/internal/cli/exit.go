package cli

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitCodes are the meanings of the exit codes, for the help and the manual.
var exitCodes = []struct {
	code          int
	short, detail string
}{
	{exitOK, "done", "The command is complete, or you interrupted one that watches, captures or measures."},
	{exitFailed, "rdmad refused or is not reachable", "Also: `conditions`, `doctor`, `check-capture`, `trace --check` and `bench` found a problem; a server did not answer `ping`; a file could not be read or written; you interrupted a command before its end. With several contexts: at least one failed."},
	{exitUsage, "wrong usage", "The command line is invalid, nothing was sent to rdmad. `check-capture`: the file is no capture, or ends early."},
}

// exitText is the list of exit codes in a line.
func exitText() string {
	parts := make([]string, len(exitCodes))
	for i, c := range exitCodes {
		parts[i] = fmt.Sprintf("%d %s", c.code, c.short)
	}
	return strings.Join(parts, ", ")
}

// exitCode is the exit code of a command that returned err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

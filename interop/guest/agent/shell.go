package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// consoleDevice is the device of QEMU's terminal.
const consoleDevice = "/dev/ttyS0"

// keepShell runs login shells on the console, one after the other.
func keepShell() {
	for {
		tty, err := os.OpenFile(consoleDevice, os.O_RDWR|syscall.O_NOCTTY, 0)
		if err != nil {
			fmt.Fprintln(os.Stderr, "agent: no shell:", err)
			return
		}
		cmd := exec.Command("/bin/sh", "-l")
		cmd.Env = environment
		cmd.Dir = "/root"
		cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "agent: shell:", err)
		}
		tty.Close()
	}
}

// Command locker takes a byte-range lock (fcntl(2)) on a file. Tests run it in
// the kernel guest, where no other program does that.
//
//	locker try|hold FILE OFFSET LENGTH
//
// "try" prints "locked", or "busy" if another owner holds a part of the range.
// "hold" waits for the lock, prints "locked" and holds the lock until it is
// killed.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "locker:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: locker try|hold FILE OFFSET LENGTH")
	}
	commands := map[string]int{"try": unix.F_SETLK, "hold": unix.F_SETLKW}
	command, known := commands[args[0]]
	if !known {
		return fmt.Errorf("%s: want try or hold", args[0])
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	var err error
	if lock.Start, err = strconv.ParseInt(args[2], 10, 64); err != nil {
		return err
	}
	if lock.Len, err = strconv.ParseInt(args[3], 10, 64); err != nil {
		return err
	}
	f, err := os.OpenFile(args[1], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return take(f, command, &lock)
}

func take(f *os.File, command int, lock *unix.Flock_t) error {
	for {
		err := unix.FcntlFlock(f.Fd(), command, lock)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
			fmt.Println("busy")
			return nil
		case err != nil:
			return fmt.Errorf("locking %s: %w", f.Name(), err)
		}
		break
	}
	fmt.Println("locked")
	for command == unix.F_SETLKW {
		// Any signal ends pause(2), those that Go's runtime sends to itself as
		// well: only SIGKILL may end the program.
		_ = unix.Pause()
	}
	return nil
}

//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// fileDir is where the kernel lets programs at its devices.
const fileDir = "/dev/infiniband"

// missing says what to do about a failure to use any device, in one line.
func missing(err error) error {
	return fmt.Errorf("rdmacore: %w: %s", err, advice(inventory.ClassDir, fileDir))
}

// noDevice says why the device that is configured, or any, can't be used; names
// are the kernel's devices, and err is why one of them could not be opened, if so.
func noDevice(configured string, names []string, err error) error {
	switch {
	case configured != "" && len(names) > 0 && !slices.Contains(names, configured):
		return fmt.Errorf("rdmacore: no device %s: this machine has %s (providers.rdmacore.device)", configured, strings.Join(names, ", "))
	case err != nil:
		return missing(err)
	case configured != "":
		return missing(fmt.Errorf("no device %s", configured))
	}
	return missing(errors.New("no device"))
}

// deviceNames are the kernel's devices.
func deviceNames(classDir string) (names []string) {
	devices, _ := os.ReadDir(classDir)
	for _, d := range devices {
		names = append(names, d.Name())
	}
	return names
}

func advice(classDir, fileDir string) string {
	names := deviceNames(classDir)
	if len(names) == 0 {
		return "this machine has no RDMA device; a software one: rdma link add siw0 type siw netdev eth0"
	}
	for _, f := range []struct{ name, module string }{{"rdma_cm", "rdma_ucm"}, {"uverbs0", "ib_uverbs"}} {
		path := fileDir + "/" + f.name
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		switch {
		case err == nil:
			_ = file.Close()
		case errors.Is(err, fs.ErrNotExist):
			return path + " is missing: modprobe " + f.module
		case errors.Is(err, syscall.EPERM): // of a device controller: modes give EACCES
			return path + " may not be opened by this service, which was started before it was there: restart it"
		case errors.Is(err, fs.ErrPermission):
			return path + " may not be opened: run rdmad as root or give its group the right to"
		}
	}
	return "the kernel has " + strings.Join(names, ", ") + "; is libibverbs' driver for it installed (Debian: ibverbs-providers)?"
}

// registrationError says why memory could not be registered.
func registrationError(n int, rc C.int) error {
	err := fmt.Errorf("rdmacore: register %d bytes: %w", n, syscall.Errno(rc))
	var limit unix.Rlimit
	if syscall.Errno(rc) != syscall.ENOMEM || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return err
	}
	return fmt.Errorf("%w: only %d KiB may be locked: raise ulimit -l, or LimitMEMLOCK of the service", err, limit.Cur>>10)
}

// filesError adds to an error what to do when it is that there are no more files.
func filesError(err error) error {
	var limit unix.Rlimit
	if !errors.Is(err, syscall.EMFILE) || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return err
	}
	return fmt.Errorf("%w: only %d files may be open, two for each connection: raise ulimit -n, or LimitNOFILE of the service", err, limit.Cur)
}

// listenError says why nobody can listen at an address.
func listenError(at netip.AddrPort, rc C.int) error {
	err := error(syscall.Errno(rc))
	switch syscall.Errno(rc) {
	case syscall.ENODEV, syscall.EADDRNOTAVAIL:
		err = noAddressError{syscall.Errno(rc)}
	}
	return fmt.Errorf("rdmacore: listen on %s: %w", at, err)
}

// noAddressError is the kernel's error for an address that no RDMA device has.
type noAddressError struct{ syscall.Errno }

func (e noAddressError) Error() string { return e.Errno.Error() + ": no RDMA device has this address" }

func (e noAddressError) Unwrap() error { return e.Errno }

// BindReason has the facts about the address that was to be bound.
func (e noAddressError) BindReason() error { return e }

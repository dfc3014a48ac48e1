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

// fileDir is the directory of the device files through which programs use RDMA devices.
const fileDir = "/dev/infiniband"

// missing returns an error that says, in one line, what to do when no device is usable.
func missing(err error) error {
	return fmt.Errorf("rdmacore: %w: %s", err, advice(inventory.ClassDir, fileDir))
}

// noDevice returns why the configured device, or any device, can't be used. names are the
// kernel's devices. err, if any, is why one of them could not be opened.
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

// deviceNames returns the names of the kernel's devices.
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
		case errors.Is(err, syscall.EPERM): // from a device controller; file modes give EACCES
			return path + " may not be opened by this service, which was started before it was there: restart it"
		case errors.Is(err, fs.ErrPermission):
			return path + " may not be opened: run rdmad as root or give its group the right to"
		}
	}
	return "the kernel has " + strings.Join(names, ", ") + "; is libibverbs' driver for it installed (Debian: ibverbs-providers)?"
}

// registrationError returns the error for n bytes of memory that could not be registered.
func registrationError(n int, rc C.int) error {
	err := fmt.Errorf("rdmacore: register %d bytes: %w", n, syscall.Errno(rc))
	var limit unix.Rlimit
	if syscall.Errno(rc) != syscall.ENOMEM || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return err
	}
	return fmt.Errorf("%w: only %d KiB may be locked: raise ulimit -l, or LimitMEMLOCK of the service", err, limit.Cur>>10)
}

// filesError adds advice to an error that means that too many files are open.
func filesError(err error) error {
	var limit unix.Rlimit
	if !errors.Is(err, syscall.EMFILE) || unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return err
	}
	return fmt.Errorf("%w: only %d files may be open, two for each connection: raise ulimit -n, or LimitNOFILE of the service", err, limit.Cur)
}

// listenError returns the error for an address at which listening failed.
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

// BindReason returns the facts about the address that could not be bound.
func (e noAddressError) BindReason() error { return e }

package conditions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lowSpace is the free space, in bytes, below which a state directory is low on space.
const lowSpace = 64 << 20

// ExportDirectory checks whether files can be made in a served directory.
func ExportDirectory(path string) (*Reason, string) {
	if err := writable(path); errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) {
		return ExportReadOnly, err.Error()
	} else if err != nil {
		return ExportUnusable, err.Error()
	}
	return ExportServed, path
}

// writable returns an error if this process can't make files in a directory.
func writable(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		return &fs.PathError{Op: "write", Path: path, Err: unix.EROFS}
	}
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// StateDirectory checks whether files can be written in a directory, and whether it still
// contains the locked file.
func StateDirectory(path string, lock fs.FileInfo) (*Reason, string) {
	err := tryWrite(path)
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(filepath.Join(path, lock.Name())); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(info, lock) {
			return StateReplaced, path + " is another directory than at the start"
		}
	}
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return StateFull, err.Error()
	case errors.Is(err, unix.EROFS):
		return StateReadOnly, err.Error()
	case err != nil:
		return StateUnusable, err.Error()
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return StateUnusable, (&fs.PathError{Op: "statfs", Path: path, Err: err}).Error()
	}
	free, bounded := FreeSpace(&st)
	if !bounded {
		return StateWritable, path
	}
	text := fmt.Sprintf("%s has %d MiB free", path, free>>20)
	if free < lowSpace {
		return StateLowSpace, text
	}
	return StateWritable, text
}

// FreeSpace returns how many bytes users who are not root can still write to a file system. bounded is
// false if it does not say that, as tmpfs without a limit.
func FreeSpace(st *unix.Statfs_t) (free uint64, bounded bool) {
	return st.Bavail * uint64(cmp.Or(st.Frsize, st.Bsize)), st.Blocks > 0
}

// tryWrite writes a file without a name, which leaves no trace.
func tryWrite(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) { // not on every file system
		return writable(dir)
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	f := os.NewFile(uintptr(fd), filepath.Join(dir, "(test)"))
	defer f.Close()
	_, err = f.Write(make([]byte, 4096))
	return err
}

package nfs

import (
	"bytes"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
)

// maxName is the longest name of a directory entry, in bytes.
const maxName = posix.MaxName

// checkName checks a name (filename3) in a directory. Each procedure must check "." and
// ".." itself.
func checkName(name []byte) error {
	switch {
	case len(name) == 0:
		return errAccess
	case len(name) > maxName:
		return errNameTooLong
	case bytes.IndexByte(name, '/') >= 0 || bytes.IndexByte(name, 0) >= 0:
		return errInval
	}
	return nil
}

func isDot(name []byte) bool { return string(name) == "." || string(name) == ".." }

// checkNew checks a name to be created. "." and ".." exist already.
func checkNew(name []byte) error {
	if isDot(name) {
		return errExist
	}
	return checkName(name)
}

// checkOld checks a name to be removed.
func checkOld(name []byte) error {
	if isDot(name) {
		return errInval
	}
	return checkName(name)
}

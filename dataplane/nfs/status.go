package nfs

import (
	"context"
	"errors"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// statusError is a status of the protocol as a Go error.
type statusError nfsv3.Nfsstat3

func (e statusError) Error() string {
	if name, ok := nfsv3.Nfsstat3_name[nfsv3.Nfsstat3(e)]; ok {
		return "nfs: " + name
	}
	return "nfs: unknown status"
}

// The statuses that the service itself returns. Others come from the kernel's errors.
const (
	errPerm        = statusError(nfsv3.NFS3ERR_PERM)
	errNoEnt       = statusError(nfsv3.NFS3ERR_NOENT)
	errIO          = statusError(nfsv3.NFS3ERR_IO)
	errAccess      = statusError(nfsv3.NFS3ERR_ACCES)
	errExist       = statusError(nfsv3.NFS3ERR_EXIST)
	errXDev        = statusError(nfsv3.NFS3ERR_XDEV)
	errNotDir      = statusError(nfsv3.NFS3ERR_NOTDIR)
	errInval       = statusError(nfsv3.NFS3ERR_INVAL)
	errFBig        = statusError(nfsv3.NFS3ERR_FBIG)
	errROFS        = statusError(nfsv3.NFS3ERR_ROFS)
	errNameTooLong = statusError(nfsv3.NFS3ERR_NAMETOOLONG)
	errStale       = statusError(nfsv3.NFS3ERR_STALE)
	errBadHandle   = statusError(nfsv3.NFS3ERR_BADHANDLE)
	errNotSync     = statusError(nfsv3.NFS3ERR_NOT_SYNC)
	errBadCookie   = statusError(nfsv3.NFS3ERR_BAD_COOKIE)
	errTooSmall    = statusError(nfsv3.NFS3ERR_TOOSMALL)
	errBadType     = statusError(nfsv3.NFS3ERR_BADTYPE)
	errJukebox     = statusError(nfsv3.NFS3ERR_JUKEBOX)
)

// isOneOf reports whether err is one of some errors.
func isOneOf(err error, list ...error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// statusOf returns the status for err. If the protocol has none, ok is false: the answer is
// NFS3ERR_SERVERFAULT, and the error should be logged.
func statusOf(err error) (status nfsv3.Nfsstat3, ok bool) {
	switch e := err.(type) { //nolint:errorlint // the service wraps no errors on this path
	case nil:
		return nfsv3.NFS3_OK, true
	case statusError:
		return nfsv3.Nfsstat3(e), true
	case unix.Errno:
		return statusOfErrno(e)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nfsv3.NFS3ERR_JUKEBOX, true // the connection ends, so no client sees it
	}
	if errno, is := errors.AsType[unix.Errno](err); is {
		return statusOfErrno(errno)
	}
	return nfsv3.NFS3ERR_SERVERFAULT, false
}

// statusOfErrno maps the kernel's errors to those of RFC 1813 §2.6, as Linux's own server
// does.
func statusOfErrno(e unix.Errno) (nfsv3.Nfsstat3, bool) {
	switch e {
	case unix.EPERM:
		return nfsv3.NFS3ERR_PERM, true
	case unix.ENOENT:
		return nfsv3.NFS3ERR_NOENT, true
	case unix.EIO, unix.EUCLEAN, unix.EBADMSG, unix.ETXTBSY, unix.EREMOTEIO:
		return nfsv3.NFS3ERR_IO, true
	case unix.ENXIO, unix.ENODATA:
		return nfsv3.NFS3ERR_NXIO, true
	case unix.EACCES:
		return nfsv3.NFS3ERR_ACCES, true
	case unix.EEXIST:
		return nfsv3.NFS3ERR_EXIST, true
	case unix.EXDEV:
		return nfsv3.NFS3ERR_XDEV, true
	case unix.ENODEV:
		return nfsv3.NFS3ERR_NODEV, true
	case unix.ENOTDIR:
		return nfsv3.NFS3ERR_NOTDIR, true
	case unix.EISDIR:
		return nfsv3.NFS3ERR_ISDIR, true
	case unix.EINVAL, unix.ELOOP:
		return nfsv3.NFS3ERR_INVAL, true
	case unix.EFBIG, unix.EOVERFLOW:
		return nfsv3.NFS3ERR_FBIG, true
	case unix.ENOSPC:
		return nfsv3.NFS3ERR_NOSPC, true
	case unix.EROFS:
		return nfsv3.NFS3ERR_ROFS, true
	case unix.EMLINK:
		return nfsv3.NFS3ERR_MLINK, true
	case unix.ENAMETOOLONG:
		return nfsv3.NFS3ERR_NAMETOOLONG, true
	case unix.ENOTEMPTY:
		return nfsv3.NFS3ERR_NOTEMPTY, true
	case unix.EDQUOT:
		return nfsv3.NFS3ERR_DQUOT, true
	case unix.ESTALE:
		return nfsv3.NFS3ERR_STALE, true
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return nfsv3.NFS3ERR_NOTSUPP, true
	case unix.EBUSY:
		return nfsv3.NFS3ERR_ACCES, true
	case unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		return nfsv3.NFS3ERR_JUKEBOX, true
	}
	return nfsv3.NFS3ERR_SERVERFAULT, false
}

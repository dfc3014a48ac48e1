package nfs

import (
	"context"
	"errors"
	"slices"

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
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
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
	if status, known := statuses[e]; known {
		return status, true
	}
	return nfsv3.NFS3ERR_SERVERFAULT, false
}

var statuses = map[unix.Errno]nfsv3.Nfsstat3{
	unix.EPERM: nfsv3.NFS3ERR_PERM, unix.ENOKEY: nfsv3.NFS3ERR_PERM,
	unix.ENOENT: nfsv3.NFS3ERR_NOENT,
	unix.EIO:    nfsv3.NFS3ERR_IO, unix.EUCLEAN: nfsv3.NFS3ERR_IO, unix.EBADMSG: nfsv3.NFS3ERR_IO, unix.ETXTBSY: nfsv3.NFS3ERR_IO, unix.EREMOTEIO: nfsv3.NFS3ERR_IO,
	unix.ENXIO: nfsv3.NFS3ERR_NXIO, unix.ENODATA: nfsv3.NFS3ERR_NXIO,
	unix.EACCES:  nfsv3.NFS3ERR_ACCES,
	unix.EEXIST:  nfsv3.NFS3ERR_EXIST,
	unix.EXDEV:   nfsv3.NFS3ERR_XDEV,
	unix.ENODEV:  nfsv3.NFS3ERR_NODEV,
	unix.ENOTDIR: nfsv3.NFS3ERR_NOTDIR,
	unix.EISDIR:  nfsv3.NFS3ERR_ISDIR,
	unix.EINVAL:  nfsv3.NFS3ERR_INVAL, unix.ELOOP: nfsv3.NFS3ERR_INVAL,
	unix.EFBIG: nfsv3.NFS3ERR_FBIG, unix.EOVERFLOW: nfsv3.NFS3ERR_FBIG,
	unix.ENOSPC:       nfsv3.NFS3ERR_NOSPC,
	unix.EROFS:        nfsv3.NFS3ERR_ROFS,
	unix.EMLINK:       nfsv3.NFS3ERR_MLINK,
	unix.ENAMETOOLONG: nfsv3.NFS3ERR_NAMETOOLONG,
	unix.ENOTEMPTY:    nfsv3.NFS3ERR_NOTEMPTY,
	unix.EDQUOT:       nfsv3.NFS3ERR_DQUOT,
	unix.ESTALE:       nfsv3.NFS3ERR_STALE,
	unix.EOPNOTSUPP:   nfsv3.NFS3ERR_NOTSUPP, unix.ENOSYS: nfsv3.NFS3ERR_NOTSUPP,
	unix.EBUSY:  nfsv3.NFS3ERR_ACCES,
	unix.ENOMEM: nfsv3.NFS3ERR_JUKEBOX, unix.EMFILE: nfsv3.NFS3ERR_JUKEBOX, unix.ENFILE: nfsv3.NFS3ERR_JUKEBOX,
	unix.EAGAIN: nfsv3.NFS3ERR_JUKEBOX, unix.EINTR: nfsv3.NFS3ERR_JUKEBOX, unix.ETIMEDOUT: nfsv3.NFS3ERR_JUKEBOX,
}

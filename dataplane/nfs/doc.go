// Package nfs is the built-in NFS version 3 and MOUNT version 3 service
// (RFC 1813) over one directory. A Server is an oncrpc.Handler for the
// programs 100003 and 100005, whatever transport the calls come by.
//
// The owner's duties: one Server per directory and process is enough; Close it
// when no transport calls it any more.
//
// # What is exported
//
// The directory Config.Path, under the paths "/export", "/", the configured
// path, and "/" with its last part; directories beneath it can be mounted as
// well (10.0.2.2:/export/sub). File systems mounted within it are not part of
// it: their names are listed and can't be entered.
//
// # File handles
//
// A handle holds what the file system knows an object by for good: the file
// handle of name_to_handle_at(2), which is inode and generation on the usual
// file systems. It outlives renames, restarts and the end of rdmad by kill -9,
// and is stale (NFS3ERR_STALE) once the object is gone, even when its inode
// number is used again. Package fh seals it with a key from Config.StateDir, so
// that nobody can make a handle of an object that was never looked up in the
// export.
//
// With CAP_DAC_READ_SEARCH the kernel opens handles (open_by_handle_at).
// Without, or where the file system can't, the server goes by names: it
// remembers where it saw each object, walks there, and compares the handle; for
// what it does not find, after a restart or after others have renamed things,
// it searches the export. File systems without handles have their objects
// known by inode number and time of birth.
//
// # Staying within the export
//
// Names are single components, looked up or opened relative to a directory's
// descriptor and never through a symbolic link; what is on another mount than
// the export is refused. A directory that is about to be used is
// asked for its ancestors, so that one that was moved out of the export is
// stale at once. Any other object is checked from time to time by the path
// under which the kernel knows it; while the kernel knows none, which is after
// a restart when nobody has used the file since, a client that has the handle
// of a file that was moved out can still use this one file.
//
// # Callers
//
// When rdmad runs as root, each call acts with the file system identity of its
// AUTH_SYS credential, squashed as configured: the kernel checks rights,
// access control lists included, and new objects belong to the caller. As with
// Linux's own server, a file's owner may read and write it whatever its mode.
// Squash is none by default: the root user of any client that can reach the
// listener is root in the export. Listeners are local by default; give others
// SquashRoot.
//
// When it runs as another user, all is done as that user, whoever calls;
// changing owners is refused (NFS3ERR_PERM). Files that this user owns are
// opened in spite of their mode, by changing it for a moment.
//
// # Listing
//
// A READDIR cookie is good for ever: names that are there all the time come
// once, whatever comes and goes between calls, over restarts, too. It is the
// kernel's directory offset on file systems where that belongs to the name,
// and a keyed hash of the name elsewhere.
//
// # Stability
//
// UNSTABLE writes are in the kernel's page cache, DATA_SYNC and FILE_SYNC
// writes and COMMIT on stable storage, before they are answered. The write
// verifier is a new one in each Server and after each error that may have
// lost data. Changes of names and attributes are on stable storage when they
// are answered; with Config.AsyncMetadata they are in the kernel, and survive
// the end of rdmad but not of the machine. On file systems that are in memory
// alone there is nothing to wait for. An EXCLUSIVE create keeps its verifier in
// the file's times. Other calls that must not happen twice are answered from a cache of
// replies when a client sends them again, within the life of a Server.
//
// # Limits
//
// File IDs are the file system's inode numbers. In an export whose mount shows
// several devices (btrfs subvolumes), the device's number is folded into those
// of all but the root's, which can't rule out that two objects get the same.
// On overlayfs before Linux 6.6, a file of a
// lower layer gets another handle when it is first written.
package nfs

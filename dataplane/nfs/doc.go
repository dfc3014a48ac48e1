// Package nfs implements the built-in NFS version 3 and MOUNT version 3 service (RFC 1813)
// for directories. A Server is an oncrpc.Handler for the programs 100003 and 100005, on any
// transport.
//
// The caller's duties: no two Servers with one state directory, except while one takes the place of
// another; Check from time to time; Close when no transport calls the Server any more.
//
// # What is exported
//
// The directory Config.Path is exported under the paths "/export", "/", the configured
// path, and "/" with its last part. Config.Exports are exported under their paths.
// Directories below can be mounted as well (10.0.2.2:/export/sub). File systems mounted
// inside an export are not part of it: their names are listed, but cannot be entered.
//
// # Clients
//
// Export.Clients has the options of networks. The address of a call's client decides, at
// each call. A client without access gets MNT3ERR_ACCES, and NFS3ERR_STALE for handles. A
// handle is valid for its own export only: the keys of exports differ, and exports on one
// mount must not overlap. RENAME and LINK between exports are NFS3ERR_XDEV.
//
// # File systems that go away
//
// Check and MNT look at an export's path. If the served file system is not mounted any more,
// or its server or disk is gone, all its files are closed. Then MNT answers MNT3ERR_NOENT,
// and other calls NFS3ERR_JUKEBOX with RequireMountpoint and NFS3ERR_STALE without, as
// Linux's own server and mountd do. Handles of exports that were not mounted since the start
// get NFS3ERR_JUKEBOX. The same file system, by the handle of its root and its ID, is served
// again when it is back, with a new write verifier. Another one is not.
//
// # File handles
//
// A handle contains the permanent identity of an object in its file system: the file handle
// of name_to_handle_at(2), which is inode and generation on the usual file systems. It
// survives renames, restarts and kill -9 of rdmad. It is stale (NFS3ERR_STALE) once the
// object is gone, even if its inode number is reused. Package fh seals it with a key from
// Config.StateDir, so that a client cannot make a handle of an object that was never looked
// up in the export.
//
// With CAP_DAC_READ_SEARCH the kernel opens handles (open_by_handle_at). Without it, or if
// the file system cannot, the server uses names: it remembers where it saw each object,
// walks there, and compares the handle. If it does not find the object, after a restart or
// after others have renamed it, it searches the export. On file systems without handles,
// inode number and time of birth identify objects.
//
// # Staying within the export
//
// Names are single components. They are looked up or opened relative to a directory's
// descriptor and never through a symbolic link. Anything on a mount other than the export
// is refused. Before a directory is used, its ancestors are checked, so a directory that
// was moved out of the export is stale at once. Any other object is checked from time to
// time by the path under which the kernel knows it. The kernel knows none after a restart
// if nobody has used the file since. Then a client that has the handle of a file that was
// moved out can still use this one file.
//
// # Callers
//
// When rdmad runs as root, each call uses the file system identity of its AUTH_SYS
// credential, squashed as configured. The kernel checks rights, including access control
// lists, and new objects belong to the caller. As with Linux's own server, a file's owner
// may read and write it regardless of its mode. Squash is none by default: the root user of
// any client that can reach the listener is root in the export. Listeners are local by
// default. Use SquashRoot for others.
//
// When rdmad runs as another user, all calls are executed as that user. Changing owners is
// refused (NFS3ERR_PERM). Files that this user owns are opened regardless of their mode, by
// changing it for a moment.
//
// # Listing
//
// A READDIR cookie is valid forever: names that exist all the time are listed exactly once,
// whatever changes between calls, even across restarts. The cookie is the kernel's
// directory offset on file systems where that belongs to the name, and a keyed hash of the
// name elsewhere.
//
// # Stability
//
// UNSTABLE writes are in the kernel's page cache before they are answered. DATA_SYNC and
// FILE_SYNC writes and COMMIT are on stable storage. Each Server has a new write verifier,
// and gets another after each error that may have lost data. Changes of names and
// attributes are on stable storage when they are answered, but for attributes of symbolic
// links, FIFOs, sockets and devices: the kernel syncs those only with all of the file system.
// With Config.AsyncMetadata, changes are in the kernel: they survive the end of rdmad, but not
// a crash of the machine. File systems in memory need no synchronization. An EXCLUSIVE create
// stores its verifier in the file's times. Other calls that must not be executed twice are
// answered from a cache of replies when a client repeats them, while the Server exists or
// another one has its Config.Replies.
//
// # Limits
//
// File IDs are the file system's inode numbers. If the export's mount shows several devices
// (btrfs subvolumes), the device's number is folded into the IDs on all devices but the
// root's. Two objects may then get the same ID. On overlayfs before Linux 6.6, a file of a
// lower layer gets another handle when it is first written.
package nfs

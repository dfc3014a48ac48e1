// Package programs names the ONC RPC programs that rdmad serves, forwards or calls, and
// their procedures. Traces and metrics show these names.
package programs

// Numbers of programs whose results other packages look into.
const (
	NFS    = 100003
	Mount  = 100005
	NFSACL = 100227
)

// Interface is one version of a program.
type Interface struct {
	Name       string
	Program    uint32
	Version    uint32
	Procedures []string
}

var (
	nfs2 = []string{ // RFC 1094 §2.2
		"NULL", "GETATTR", "SETATTR", "ROOT", "LOOKUP", "READLINK", "READ", "WRITECACHE", "WRITE", "CREATE", "REMOVE",
		"RENAME", "LINK", "SYMLINK", "MKDIR", "RMDIR", "READDIR", "STATFS",
	}
	nfs3 = []string{ // RFC 1813 §3
		"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
		"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
	}
	compound = []string{"NULL", "COMPOUND"}                                 // RFC 8881 §16, §20
	mount    = []string{"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"} // RFC 1813 §5
	nlm      = []string{                                                    // RFC 1813 §6
		"NULL", "TEST", "LOCK", "CANCEL", "UNLOCK", "GRANTED", "TEST_MSG", "LOCK_MSG", "CANCEL_MSG", "UNLOCK_MSG",
		"GRANTED_MSG", "TEST_RES", "LOCK_RES", "CANCEL_RES", "UNLOCK_RES", "GRANTED_RES",
	}
)

// All are the known interfaces. Those with the most calls come first.
var All = []Interface{
	{"NFS", NFS, 3, nfs3},
	{"NFS", NFS, 4, compound},
	{"ECHO", 0x20020049, 1, []string{"NULL", "ECHO", "READ", "WRITE"}},
	{"MOUNT", Mount, 3, mount},
	{"NFS", NFS, 2, nfs2},
	{"MOUNT", Mount, 2, mount},
	{"MOUNT", Mount, 1, mount},
	{"NLM", 100021, 4, nlm},
	{"NLM", 100021, 3, nlm},
	{"NLM", 100021, 1, nlm},
	{"NSM", 100024, 1, []string{"NULL", "STAT", "MON", "UNMON", "UNMON_ALL", "SIMU_CRASH", "NOTIFY"}},
	{"NFS_ACL", NFSACL, 3, []string{"NULL", "GETACL", "SETACL"}},
	{"CCP", 100417, 1, []string{"NULL", "CONF_RDMA"}}, // RFC 5666 §6
	{"NFS_CB", 0x40000000, 1, compound},
	{"NFS_CB", 0x40000000, 4, compound},
}

// Find returns the index in All of a version of a program, or -1.
func Find(program, version uint32) int {
	for i := range All {
		if All[i].Program == program && All[i].Version == version {
			return i
		}
	}
	return -1
}

// Name returns the name of a program in any version, or "".
func Name(program uint32) string {
	for i := range All {
		if All[i].Program == program {
			return All[i].Name
		}
	}
	return ""
}

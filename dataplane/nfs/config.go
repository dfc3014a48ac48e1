package nfs

import (
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

// Squash says whose rights a caller is given when rdmad runs as root.
type Squash uint8

const (
	// SquashNone takes callers for whom they say they are, root included
	// (no_root_squash of exports(5)).
	SquashNone Squash = iota
	// SquashRoot makes user and group 0 the anonymous ones (root_squash).
	SquashRoot
	// SquashAll makes everybody the anonymous user (all_squash).
	SquashAll
)

var squashNames = [...]string{"none", "root", "all"}

// ParseSquash reads the value of a configuration file. "" is "none".
func ParseSquash(s string) (Squash, error) {
	if s == "" {
		return SquashNone, nil
	}
	for i, name := range squashNames {
		if s == name {
			return Squash(i), nil
		}
	}
	return 0, fmt.Errorf("squash %q: must be none, root or all", s)
}

func (s Squash) String() string {
	if int(s) < len(squashNames) {
		return squashNames[s]
	}
	return "invalid"
}

// Anonymous is the user and the group that squashed callers become, and
// callers without a credential (nobody, nogroup).
const Anonymous = 65534

// Limits and defaults.
const (
	// MaxIO is the largest READ and WRITE, in bytes.
	MaxIO = 1 << 20

	defaultIdle     = 10 * time.Second
	defaultMaxFiles = 4096
	minFiles        = 16
)

// Config says what to serve, and how.
type Config struct {
	// Path is the directory that is exported. It must exist.
	Path string
	// ReadOnly answers NFS3ERR_ROFS to everything that would change the
	// export.
	ReadOnly bool
	// StateDir keeps the key of file handles; it is made if missing and must
	// not be within Path. Without one, handles don't survive a restart.
	StateDir string
	// Squash, AnonUID and AnonGID are in force only when rdmad runs as root
	// (see the package comment). IDs of 0 stand for Anonymous.
	Squash           Squash
	AnonUID, AnonGID uint32
	// AsyncMetadata answers changes of names and attributes before they are
	// on the disk: they survive the end of rdmad, but not a power failure.
	// RFC 1813 §4.8 wants them there, hence it is off unless asked for.
	AsyncMetadata bool
	// MaxOpenFiles bounds the descriptors of the export, see SetMaxOpenFiles.
	// 0 stands for a quarter of RLIMIT_NOFILE, at most 4096.
	MaxOpenFiles int
	// IdleClose is how long an unused file stays open, at least. 0 stands
	// for 10 s.
	IdleClose time.Duration
	// Logger tells what nobody could foresee. nil stands for slog.Default.
	Logger *slog.Logger
}

// withDefaults fills in what is not set and checks the rest.
func (c Config) withDefaults() (Config, error) {
	if c.Path == "" {
		return c, fmt.Errorf("nfs: no path to export")
	}
	if int(c.Squash) >= len(squashNames) {
		return c, fmt.Errorf("nfs: squash %d is unknown", c.Squash)
	}
	if c.AnonUID == 0 {
		c.AnonUID = Anonymous
	}
	if c.AnonGID == 0 {
		c.AnonGID = Anonymous
	}
	if c.MaxOpenFiles == 0 {
		c.MaxOpenFiles = defaultFiles()
	}
	c.MaxOpenFiles = max(c.MaxOpenFiles, minFiles)
	if c.IdleClose <= 0 {
		c.IdleClose = defaultIdle
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// defaultFiles leaves most descriptors to connections.
func defaultFiles() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur/4 > defaultMaxFiles {
		return defaultMaxFiles
	}
	return int(lim.Cur / 4)
}

// maxFileSize is the largest file that can be written, in bytes. A write past
// RLIMIT_FSIZE would end the process with SIGXFSZ, so no such write is tried.
func maxFileSize() uint64 {
	const most = 1<<63 - 1
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil {
		return most
	}
	return min(lim.Cur, most)
}

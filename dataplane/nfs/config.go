package nfs

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Squash decides the identity of callers when rdmad runs as root.
type Squash uint8

const (
	// SquashNone accepts the identity that callers claim, including root (no_root_squash of
	// exports(5)).
	SquashNone Squash = iota
	// SquashRoot maps user and group 0 to the anonymous ones (root_squash).
	SquashRoot
	// SquashAll maps all callers to the anonymous user (all_squash).
	SquashAll
)

var squashNames = [...]string{"none", "root", "all"}

// ParseSquash parses the value of a configuration file: one of none, root and all, or as in
// exports(5) root_squash and all_squash. "" means "none".
func ParseSquash(s string) (Squash, error) {
	if s == "" {
		return SquashNone, nil
	}
	for i, name := range squashNames {
		if strings.TrimSuffix(s, "_squash") == name && s != "none_squash" {
			return Squash(i), nil
		}
	}
	return 0, fmt.Errorf("squash %q: must be none, root_squash or all_squash", s)
}

// Anonymous is the user and the group (nobody, nogroup) of squashed callers, and of callers
// without a credential.
const Anonymous = 65534

// Limits and defaults.
const (
	// MaxIO is the largest READ and WRITE, in bytes.
	MaxIO = 1 << 20

	defaultIdle     = 10 * time.Second
	defaultMaxFiles = 4096
	minFiles        = 16
)

// Options are what a client may do in an export.
type Options struct {
	// ReadOnly answers NFS3ERR_ROFS to every call that would change the export.
	ReadOnly bool
	// Squash, AnonUID and AnonGID apply only when rdmad runs as root (see the package
	// comment). IDs of 0 mean Anonymous.
	Squash           Squash
	AnonUID, AnonGID uint32
}

// Client are the options of the clients in some networks.
type Client struct {
	Networks []netip.Prefix
	Options
}

// Export is an exported directory.
type Export struct {
	// Path is the directory. It must exist.
	Path string
	// RequireMountpoint serves the directory only while a file system is mounted at Path.
	RequireMountpoint bool
	// Options are those of all clients if there are no Clients.
	Options
	// Clients have access, with their own options. The longest prefix that contains the
	// address of a client counts. Other clients have no access.
	Clients []Client
}

// Limits of a Config.
const (
	MaxExports  = 64
	MaxNetworks = 1024 // of the clients of all exports together
)

// Config configures a Server.
type Config struct {
	// Export is the directory that clients mount as "/export", "/", or by its own path. It
	// may be left out if there are Exports.
	Export
	// Exports are more directories, which clients mount by their paths.
	Exports []Export
	// StateDir holds the key of file handles. It is created if missing and must not be
	// inside an export. If it is empty, handles do not survive a restart.
	StateDir string
	// AsyncMetadata answers changes of names and attributes before they are on disk. They
	// survive the end of rdmad, but not a power failure. RFC 1813 §4.8 requires them on
	// disk, so the default is off.
	AsyncMetadata bool
	// MaxOpenFiles limits the descriptors of all files, see SetMaxOpenFiles. 0 means a
	// quarter of RLIMIT_NOFILE, at most 4096.
	MaxOpenFiles int
	// IdleClose is the shortest time for which an unused file stays open. 0 means 10 s.
	IdleClose time.Duration
	// Replies and Mounts are those of the Server whose place this one takes. nil means that there was none.
	Replies *Replies
	Mounts  *Mounts
	// Logger gets unexpected errors. nil means slog.Default.
	Logger *slog.Logger
}

// withDefaults sets defaults and checks the other values.
func (c Config) withDefaults() (Config, error) {
	if c.Path == "" && len(c.Exports) == 0 {
		return c, errors.New("nfs: no path to export")
	}
	if len(c.Exports) > MaxExports {
		return c, fmt.Errorf("nfs: %d exports, at most %d are possible", len(c.Exports), MaxExports)
	}
	err := c.setDefaults()
	networks := c.networks()
	c.Exports = slices.Clone(c.Exports)
	for i := range c.Exports {
		if c.Exports[i].Path == "" {
			return c, errors.New("nfs: an export has no path")
		}
		err = errors.Join(err, c.Exports[i].setDefaults())
		networks += c.Exports[i].networks()
	}
	if err != nil {
		return c, err
	}
	if networks > MaxNetworks {
		return c, fmt.Errorf("nfs: exports have %d networks of clients, at most %d are possible", networks, MaxNetworks)
	}
	if c.MaxOpenFiles == 0 {
		c.MaxOpenFiles = defaultFiles()
	}
	c.MaxOpenFiles = max(c.MaxOpenFiles, minFiles)
	if c.IdleClose <= 0 {
		c.IdleClose = defaultIdle
	}
	if c.Replies == nil {
		c.Replies = NewReplies()
	}
	if c.Mounts == nil {
		c.Mounts = new(Mounts)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

func (e *Export) setDefaults() error {
	e.Clients = slices.Clone(e.Clients)
	err := e.Options.setDefaults()
	for i := range e.Clients {
		err = errors.Join(err, e.Clients[i].setDefaults())
	}
	return err
}

func (e *Export) networks() (n int) {
	for i := range e.Clients {
		n += len(e.Clients[i].Networks)
	}
	return n
}

func (o *Options) setDefaults() error {
	if int(o.Squash) >= len(squashNames) {
		return fmt.Errorf("nfs: unknown squash %d", o.Squash)
	}
	o.AnonUID, o.AnonGID = cmp.Or(o.AnonUID, Anonymous), cmp.Or(o.AnonGID, Anonymous)
	return nil
}

// defaultFiles leaves most descriptors to connections.
func defaultFiles() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil || lim.Cur/4 > defaultMaxFiles {
		return defaultMaxFiles
	}
	return int(lim.Cur / 4)
}

// maxFileSize returns the largest file that can be written, in bytes. A write past
// RLIMIT_FSIZE would end the process with SIGXFSZ, so no such write is tried.
func maxFileSize() uint64 {
	const most = 1<<63 - 1
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_FSIZE, &lim) != nil {
		return most
	}
	return min(lim.Cur, most)
}

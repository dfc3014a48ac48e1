package main

import (
	"flag"
	"testing"

	"github.com/rdmad/rdmad/cmd/internal/manual"
)

var update = flag.Bool("update", false, "write the manual page and the reference")

// sections are those of rdmad(8) that are not about commands.
const sections = `.SH ENVIRONMENT
.TP
.BI RDMAD_ KEY
A value of the configuration. It overrides the file. RDMAD_LIMITS_MEMORY is limits.memory. Write a
list in YAML or JSON. An empty variable counts as not set.
.TP
.BR RDMAD_CONFIG ", " RDMAD_EXPORT ", " RDMAD_DRAIN_TIMEOUT ", " RDMAD_LOG_LEVEL ", " RDMAD_LOG_FORMAT
The value of the flag with this name, if the flag is not given.
.TP
.BR NOTIFY_SOCKET ", " WATCHDOG_USEC ", " LISTEN_FDS
Set by the service manager. See
.BR sd_notify (3)
and
.BR sd_listen_fds (3).
If the service manager passes a Unix socket at the path of
.IR control.listen ,
rdmad uses that socket and does not make a new one.
.SH SIGNALS
.TP
.B SIGHUP
rdmad reads the configuration again. It also does so when the file changes.
.TP
.BR SIGTERM ", " SIGINT
rdmad finishes the calls in flight, then ends. If something hangs, such as calls in a file system that does not
answer, rdmad ends 30 s after the time of
.BR \-\-drain\-timeout ,
and the log has what hangs. Everything that rdmad has acknowledged is stored. A second signal ends it at once, if it comes 250 ms later or more:
.BR timeout (1)
sends each signal twice.
.SH EXIT STATUS
0 after an orderly end. 1 when something failed while rdmad was serving, when something hung at the end, or when
.B audit verify
or
.B state check
found damage. 2 when rdmad could not start. Standard error has the reason, with one line for each mistake
of the configuration.
.SH FILES
.TP
.I /etc/rdmad/rdmad.yaml
The configuration.
.TP
.I /var/lib/rdmad
Handle keys, live settings, audit log.
.TP
.I /run/rdmad/control.sock
The control socket. Members of group rdmad are administrators.
.SH SEE ALSO
.BR rdmactl (1),
.BR rdmad.yaml (5),
.BR nfs (5)
`

// reference is the page of the documentation, before the commands.
const reference = `# rdmad reference

All commands and flags of rdmad. ` + "`make generate`" + ` writes this page and rdmad(8) from the commands themselves. [configuration.md](configuration.md) has
the keys of the configuration file.

Exit codes: 0 after an orderly end; 1 when something failed while rdmad served, or hung at the end; 2 when rdmad could not start, with a line for each mistake of
the configuration on standard error. Some commands below have exit codes of their own.

`

// TestReference: the manual page and docs/rdmad-reference.md are those of the commands.
// With -update they are written.
func TestReference(t *testing.T) {
	p := manual.Program{Root: newCommand(), Section: 8, Sections: sections}
	manual.Check(t, "../../configs/debian/man/rdmad.8", p.Man(), *update)
	manual.Check(t, "../../docs/rdmad-reference.md", reference+p.Markdown(), *update)
}

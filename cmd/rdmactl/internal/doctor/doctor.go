// Package doctor finds out why a mount from an RPC-over-RDMA server fails or is
// slow: one check after the other, each with its result and the remedy.
//
// It uses the server as any client does, so that it works with the kernel's
// server as well. It changes nothing there: its calls are NULL, and MNT and
// UMNT of the MOUNT program.
package doctor

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
)

// Result of a check.
type Result string

// Results.
const (
	OK      Result = "OK"
	Warning Result = "WARNING" // it works, but slower or less safely than it could
	Failed  Result = "FAILED"  // a mount fails
	Skipped Result = "SKIPPED" // what it needs failed before, or is not there
)

// Finding is the result of one check. The JSON names are fixed.
type Finding struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Reason string `json:"reason"`
	Remedy string `json:"remedy"`
}

// Report has the results of all checks.
type Report struct {
	Address string    `json:"address"`
	Healthy bool      `json:"healthy"` // no check failed
	Checks  []Finding `json:"checks"`
	// Mount is the command that mounts the export, "" when none was found.
	Mount string `json:"mount"`
}

// DefaultPort is the port of NFS over RDMA.
const DefaultPort = "20049"

// Config has the server to examine.
type Config struct {
	// Host and Port of the server.
	Host, Port string
	// Provider is the verbs provider to connect with.
	Provider string
	// Program, if set, is called in place of NFS. Then no export is checked.
	Program *target.Program
	// Export is the path to mount; "" is the first one that the server lists.
	Export string
	// MountPort is the TCP port of the MOUNT program; 0 asks the server's rpcbind.
	MountPort uint16
	// Timeout limits how long each check waits for an answer.
	Timeout time.Duration
	// Daemon returns the values that the control plane of the server's rdmad reports for an address of
	// the server, or for any if it is not valid. It is nil, or returns an error, if there is none.
	Daemon func(context.Context, netip.Addr) (*Daemon, error)
	// Show, if set, is called with each finding as it is made.
	Show func(Finding)

	// Machine is this machine.
	Machine Machine
}

// Machine returns facts about the machine on which the checks run.
type Machine struct {
	Root     fs.FS                                   // of the file system
	LookPath func(string) (string, error)            // finds a program
	Release  string                                  // of the kernel, as uname -r says
	Now      func() time.Time                        //
	MTU      func(netip.Addr) (name string, mtu int) // of the interface that has an address
	RPCBind  string                                  // port of rpcbind at the server
	Lookup   func(context.Context, string) ([]netip.Addr, error)
	// Dial connects to a TCP address, from a reserved port if it may.
	Dial func(ctx context.Context, address string) (nc net.Conn, reserved bool, err error)
}

// Daemon has an rdmad's values for the listener that serves the address.
type Daemon struct {
	Listener string
	// Now is the time of its clock, exact to a second.
	Now time.Time
	// Invalidates: remote_invalidation.use is on for the listener.
	Invalidates bool
	// Advice has the commands that `settings advise` gives, with the reason.
	Advice []Advice
}

// Advice is one command of `settings advise`.
type Advice struct{ Command, Reason string }

// visit is one examination.
type visit struct {
	*Config
	report Report
	failed bool // the chain of checks has broken

	addr    netip.Addr
	conn    *net.TCPConn // of the TCP check, used by the MPA check
	mss     int
	client  *target.Target // of version 1
	program target.Program
	nfs4    bool // NFS version 4 answers, too
	mount   mountService

	reserved bool // the last connection over TCP came from a reserved port
}

// check is one check. Those of the chain need all before them.
type check struct {
	name  string
	chain bool
	run   func(*visit, context.Context) Finding
}

// checks are made in this order.
var checks = []check{
	{"host name", true, (*visit).resolve},
	{"tcp", true, (*visit).reach},
	{"path mtu", true, (*visit).pathMTU},
	{"mpa", true, (*visit).handshake},
	{"connect", true, (*visit).connect},
	{"rpc", true, (*visit).call},
	{"version 2", true, (*visit).version2},
	{"inline sizes", true, (*visit).inline},
	{"credits", true, (*visit).credits},
	{"remote invalidation", true, (*visit).invalidation},
	{"rpcbind", true, (*visit).rpcbind},
	{"export", true, (*visit).export},
	{"clock", false, (*visit).clock},
	{"thresholds", false, (*visit).thresholds},
	{"mount.nfs", false, (*visit).mountProgram},
	{"kernel module", false, (*visit).module},
	{"rdma device", false, (*visit).device},
}

// Run makes all checks. It ends early, with ctx's error, only if ctx ends.
func Run(ctx context.Context, cfg *Config) (*Report, error) {
	v := &visit{Config: cfg}
	defer v.close()
	v.report.Address = net.JoinHostPort(cfg.Host, cfg.Port)
	v.report.Healthy = true
	for _, c := range checks {
		f := Finding{Result: Skipped, Reason: "a check before it failed"}
		if !c.chain || !v.failed {
			f = v.examine(ctx, c)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f.Name = c.name
		if f.Result == Failed {
			v.report.Healthy = false
			v.failed = v.failed || c.chain
		}
		v.report.Checks = append(v.report.Checks, f)
		if v.Show != nil {
			v.Show(f)
		}
	}
	return &v.report, nil
}

// examine bounds one check: it makes at most three attempts of one wait each.
func (v *visit) examine(ctx context.Context, c check) Finding {
	ctx, cancel := context.WithTimeout(ctx, 3*v.Timeout)
	defer cancel()
	return c.run(v, ctx)
}

func (v *visit) close() {
	if v.conn != nil {
		_ = v.conn.Close()
	}
	if v.client != nil {
		_ = v.client.Close()
	}
}

func (v *visit) address() string {
	n, _ := strconv.ParseUint(v.Port, 10, 16) // resolve has checked it
	return netip.AddrPortFrom(v.addr, uint16(n)).String()
}

func ok(reason string) Finding { return Finding{Result: OK, Reason: reason} }
func warn(reason, remedy string) Finding {
	return Finding{Result: Warning, Reason: reason, Remedy: remedy}
}
func fail(reason, remedy string) Finding {
	return Finding{Result: Failed, Reason: reason, Remedy: remedy}
}
func skip(reason string) Finding { return Finding{Result: Skipped, Reason: reason} }

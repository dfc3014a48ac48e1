package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	mountv3 "github.com/buildbarn/go-xdr/pkg/protocols/mount"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// The portmapper (RFC 1833 §3) and MOUNT (RFC 1813 §5), as far as they are used.
const (
	portmapProgram, portmapVersion, portmapGetPort = 100000, 2, 3
	mountProgram, mountVersion                     = 100005, 3
	mountMnt, mountUmnt, mountExport               = 1, 3, 5
	nlmProgram, nlmVersion                         = 100021, 4

	protocolTCP = 6
	// rdmadMountPort is where rdmad serves MOUNT without a configuration.
	rdmadMountPort = 20048
	maxReply       = 1 << 20
)

// mountService is where MOUNT is, and how that is known.
type mountService struct {
	port  uint16
	bind  bool // rpcbind says so
	locks bool // rpcbind knows the lock manager, too
}

// rpcbind asks the server's rpcbind for the lock manager, and for the port of MOUNT.
func (v *visit) rpcbind(ctx context.Context) Finding {
	if v.program.Number != target.NFS.Number || v.program.Version != target.NFS.Version {
		return skip(v.program.String() + " needs no MOUNT")
	}
	port, err := v.getPort(ctx, nlmProgram, nlmVersion)
	v.mount.locks = err == nil && port != 0
	if v.MountPort != 0 {
		v.mount.port = v.MountPort
		return skip(fmt.Sprintf("--mount-port %d", v.MountPort))
	}
	v.mount.port = rdmadMountPort
	remedy := fmt.Sprintf("mount with mountport=%d,mountproto=tcp%s, or let rdmad register: rpcbind: true on its listener", rdmadMountPort, v.six())
	if err == nil {
		port, err = v.getPort(ctx, mountProgram, mountVersion)
	}
	switch {
	case err != nil:
		return warn("no rpcbind answers at the server: "+last(err), remedy)
	case port == 0:
		return warn("the server's rpcbind does not know MOUNT", remedy)
	}
	v.mount.port, v.mount.bind = port, true
	return ok(fmt.Sprintf("MOUNT is on port %d", port))
}

func (v *visit) getPort(ctx context.Context, program, version uint32) (uint16, error) {
	args := xdr.AppendUint32(nil, program)
	args = xdr.AppendUint32(args, version)
	args = xdr.AppendUint32(args, protocolTCP)
	args = xdr.AppendUint32(args, 0)
	results, err := v.tcpCall(ctx, net.JoinHostPort(v.addr.String(), v.Machine.RPCBind), portmapProgram, portmapVersion, portmapGetPort, args)
	if err != nil {
		return 0, err
	}
	d := xdr.NewDecoder(results)
	port := d.Uint32()
	if d.Err() != nil || port > 65535 {
		return 0, errors.New("its answer is malformed")
	}
	return uint16(port), nil
}

// tcpCall makes one call on a connection of its own, as root.
func (v *visit) tcpCall(ctx context.Context, address string, program, version, procedure uint32, args []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	host, _ := os.Hostname()
	cred := oncrpc.AuthSys{MachineName: []byte(host)}
	nc, reserved, err := v.Machine.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	v.reserved = reserved
	c := rpctcp.NewClient(nc, rpctcp.ClientConfig{
		Cred: oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: cred.Append(nil)}, MaxCalls: 1, MaxRecord: maxReply, RecordTimeout: v.Timeout, WriteTimeout: v.Timeout,
	})
	defer c.Close()
	return c.Call(ctx, program, version, procedure, args, nil)
}

// export mounts and unmounts the export, as far as MOUNT goes.
func (v *visit) export(ctx context.Context) Finding {
	at := netip.AddrPortFrom(v.addr, v.mount.port).String()
	switch {
	case v.program.Number != target.NFS.Number:
		return skip(v.program.String() + " has no exports")
	case v.program.Version != target.NFS.Version:
		v.report.Mount = v.command("4", "", cmp.Or(v.Export, "/"))
		return skip(v.program.String() + " needs no MOUNT")
	}
	results, err := v.tcpCall(ctx, at, mountProgram, mountVersion, mountExport, nil)
	if err != nil {
		f := fail(fmt.Sprintf("MOUNT does not answer on %s: %s", at, last(err)),
			"name its port with --mount-port; at the server: tcp_listen of the NFS service, or rpc.mountd")
		if v.nfs4 { // which needs no MOUNT
			f.Result, f.Reason = Warning, f.Reason+", so that only version 4 can be mounted"
			v.report.Mount = v.command("4", "", cmp.Or(v.Export, "/"))
		}
		return f
	}
	all, err := exports(results)
	if err != nil {
		return fail("the list of exports is malformed: "+err.Error(), "see whether port "+fmt.Sprint(v.mount.port)+" is MOUNT's")
	}
	path := v.Export
	if path == "" && len(all) > 0 {
		path = all[0]
	}
	if path == "" {
		return fail("the server exports nothing", "configure an export: services with nfs.path, or /etc/exports and exportfs -ra")
	}
	return v.mnt(ctx, at, path, all)
}

// mnt asks for the root of an export as a mount does.
func (v *visit) mnt(ctx context.Context, at, path string, all []string) Finding {
	args := xdr.AppendString(nil, path)
	results, err := v.tcpCall(ctx, at, mountProgram, mountVersion, mountMnt, args)
	if err != nil {
		return fail("MNT of "+path+" fails: "+last(err), "at the server: look into the log")
	}
	d := xdr.NewDecoder(results)
	status := mountv3.Mountstat3(d.Uint32())
	if d.Err() != nil {
		return fail("the answer to MNT of "+path+" is malformed", "see whether this is MOUNT's port")
	}
	switch status {
	case mountv3.MNT3_OK:
	case mountv3.MNT3ERR_NOENT:
		return fail(path+" is not exported", "exported is "+strings.Join(all, ", "))
	case mountv3.MNT3ERR_ACCES, mountv3.MNT3ERR_PERM:
		if !v.reserved { // by default, a kernel's server refuses other ports
			return warn("the server refuses "+path+" to this machine, or to ports above 1023: "+mountv3.Mountstat3_name[status],
				"run rdmactl doctor as root, as mount runs: it then uses a port below 1024, too")
		}
		return fail("this machine may not mount "+path+": "+mountv3.Mountstat3_name[status],
			"let it: allow and deny of the service, or the clients in /etc/exports")
	default:
		return fail(fmt.Sprintf("MNT of %s fails: %s", path, mountv3.Mountstat3_name[status]), "at the server: look at the exported directory")
	}
	_, _ = v.tcpCall(ctx, at, mountProgram, mountVersion, mountUmnt, args) // the server's list of mounts is for people
	more := ""
	if !v.mount.bind {
		more = fmt.Sprintf(",mountport=%d,mountproto=tcp%s", v.mount.port, v.six())
	}
	if _, err := v.daemon(ctx); err == nil { // rdmad has no lock manager, though its machine may
		v.mount.locks = false
	}
	if !v.mount.locks {
		more += ",nolock"
	}
	v.report.Mount = v.command("3", more, path)
	return ok("this machine may mount " + path)
}

// command returns the command that mounts a path of the server.
func (v *visit) command(version, more, path string) string {
	host := v.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return fmt.Sprintf("mount -t nfs -o vers=%s,proto=rdma%s,port=%s%s %s /mnt", version, v.six(), v.Port, more, shellWord(host+":"+path))
}

// six is the end of the names of protocols over IPv6. Without it, mount takes IPv4.
func (v *visit) six() string {
	if v.addr.Is6() {
		return "6"
	}
	return ""
}

// shellWord quotes a word for the shell, if it has to be. The server chooses the names of its exports.
func shellWord(s string) string {
	const plain = "/:._-@%+=,0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxExports bounds a list.
const maxExports = 10000

// exports reads the results of EXPORT: directories, each with groups.
func exports(results []byte) (paths []string, err error) {
	d := xdr.NewDecoder(results)
	for range maxExports {
		if !d.Bool() || d.Err() != nil {
			return paths, d.Err()
		}
		paths = append(paths, string(d.Opaque(mountv3.MNTPATHLEN)))
		for d.Bool() && d.Err() == nil {
			d.Opaque(mountv3.MNTNAMLEN)
		}
	}
	return nil, errors.New("it has no end")
}

// maxSkew is how far two clocks may be apart before times of files confuse
// programs such as make.
const maxSkew = 2 * time.Second

// clock compares this machine's clock with the server's.
func (v *visit) clock(ctx context.Context) Finding {
	asked := v.Machine.Now()
	d, err := v.daemon(ctx)
	if err != nil {
		return skip("only an rdmad tells its time: " + err.Error())
	}
	// The server read its clock between then and now. The answer may take long.
	skew := max(asked.Sub(d.Now), d.Now.Sub(v.Machine.Now()))
	if skew > maxSkew {
		return warn(fmt.Sprintf("the clocks are %s apart: times of files confuse programs such as make", skew.Round(time.Second)), "set up time synchronisation on both, such as chrony")
	}
	return ok("the same, to 2 s")
}

// thresholds passes on what rdmad advises for the sizes of its messages.
func (v *visit) thresholds(ctx context.Context) Finding {
	d, err := v.daemon(ctx)
	if err != nil {
		return skip("only an rdmad has the sizes of its messages: " + err.Error())
	}
	if len(d.Advice) == 0 {
		return ok("right for the messages so far")
	}
	return warn(d.Advice[0].Reason, d.Advice[0].Command)
}

// errNoDaemon is the reason when none was asked for.
var errNoDaemon = errors.New("--addr names none")

// daemon asks the control plane.
func (v *visit) daemon(ctx context.Context) (*Daemon, error) {
	if v.Daemon == nil {
		return nil, errNoDaemon
	}
	return v.Daemon(ctx, v.addr)
}

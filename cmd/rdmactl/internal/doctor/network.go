package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// resolve finds the server's address.
func (v *visit) resolve(ctx context.Context) Finding {
	if n, err := strconv.ParseUint(v.Port, 10, 16); err != nil || n == 0 {
		return fail(fmt.Sprintf("%q is no port", v.Port), "name a port from 1 to 65535; NFS over RDMA has "+DefaultPort)
	}
	all, err := v.Machine.Lookup(ctx, v.Host)
	if err != nil || len(all) == 0 {
		return fail(fmt.Sprintf("%s has no address: %s", v.Host, last(err)), "check the name, or use the IP address")
	}
	v.addr = all[0].Unmap()
	if i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Unmap().Is4() }); i >= 0 {
		v.addr = all[i].Unmap() // mount takes it, too, with proto=rdma
	}
	if len(all) == 1 {
		return ok(v.addr.String())
	}
	return ok(fmt.Sprintf("%s, of %d addresses", v.addr, len(all)))
}

// reach opens a TCP connection to the port.
func (v *visit) reach(ctx context.Context) Finding {
	if v.Provider != providers.Default {
		return skip("provider " + v.Provider + " does not connect by TCP")
	}
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", v.address())
	switch {
	case err == nil:
	case errors.Is(err, syscall.ECONNREFUSED):
		return fail("nothing listens on "+v.address(), "start the server: systemctl start rdmad, or for the kernel's: echo rdma "+v.Port+" > /proc/fs/nfsd/portlist")
	case errors.Is(err, context.DeadlineExceeded):
		return fail("no answer from "+v.address(), "let TCP port "+v.Port+" through the firewalls between this machine and the server")
	default:
		return fail(v.address()+" is unreachable: "+last(err), "check the route: ip route get "+v.addr.String())
	}
	v.conn = conn.(*net.TCPConn)
	v.mss = maxSegment(v.conn)
	return ok("connected to " + v.address())
}

// maxSegment is TCP's maximum segment size on a connection, 0 if unknown.
func maxSegment(conn *net.TCPConn) (mss int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { mss, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return mss
}

// headers are those of IPv4 or IPv6, and of TCP with timestamps, in bytes.
func headers(ipv4 bool) int {
	if ipv4 {
		return 20 + 20 + 12
	}
	return 40 + 20 + 12
}

// largestMTU is that of Ethernet's largest frames. Over it, as on loopback, Linux
// makes segments smaller than the path allows, for the size of the window.
const largestMTU = 9216

// pathMTU compares the size of segments with the interface's MTU.
func (v *visit) pathMTU(context.Context) Finding {
	if v.conn == nil || v.mss == 0 {
		return skip("there is no TCP connection to look at")
	}
	local := v.conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	name, mtu := v.Machine.MTU(local)
	switch path := v.mss + headers(local.Is4()); {
	case mtu == 0:
		return skip("no interface has the address " + local.String())
	case mtu > largestMTU:
		return ok(fmt.Sprintf("%s has an MTU of %d", name, mtu))
	case path+64 < mtu: // options of TCP take some bytes
		return warn(fmt.Sprintf("segments of %d bytes, but %s has an MTU of %d", v.mss, name, mtu),
			"set the same MTU on the server's interface and on the switches between")
	case mtu < 1500:
		return warn(fmt.Sprintf("%s has an MTU of %d", name, mtu), fmt.Sprintf("ip link set %s mtu 9000, there and at the server", name))
	default:
		return ok(fmt.Sprintf("%s has an MTU of %d", name, mtu))
	}
}

// handshake makes the MPA exchange on the connection of reach.
func (v *visit) handshake(ctx context.Context) Finding {
	if v.conn == nil {
		return skip("provider " + v.Provider + " has no MPA")
	}
	ctx, cancel := context.WithTimeout(ctx, v.Timeout)
	defer cancel()
	defer v.conn.Close()
	sent := wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
	h, err := providers.Probe(ctx, v.conn, rdmacm.ConnParam{PrivateData: sent.Append(nil), ResponderResources: 16, InitiatorDepth: 16})
	port := "this is no iWARP port: name the server's port of NFS over RDMA (usually " + DefaultPort + ")"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fail("the port takes connections and does not answer the MPA request", port)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.ErrUnexpectedEOF):
		return fail("the server closed the connection on the MPA request",
			"if the port is right, the server's log says why; a listener with max_handshakes or deny closes so, too")
	case err != nil:
		return fail("the answer is not MPA's: "+last(err), port)
	case h.Rejected:
		reason := "the server rejects connections from this machine"
		if why := (&rdmacm.RejectedError{PrivateData: h.PrivateData}).Reason(); why != "" {
			reason += ": " + why
		}
		return fail(reason, "at the server: rdmactl listeners list shows its limits, allow and deny; rdmactl limits show the places")
	}
	rtr := "no RTR"
	if h.RTR != "" {
		rtr = "RTR by " + h.RTR
	}
	crc := "without CRC32C"
	if h.CRC {
		crc = "with CRC32C"
	}
	text := fmt.Sprintf("MPA revision %d, %s, %s", h.Revision, crc, rtr)
	if _, said := wire.ParsePrivateData(h.PrivateData); !said {
		return warn(text+", no RPC-over-RDMA private data: Sends of "+strconv.Itoa(wire.DefaultSize)+" bytes, no remote invalidation",
			"use a server that sends it (RFC 8797): Linux 4.10 or later, rdmad")
	}
	return ok(text)
}

// last is what an error says at its end.
func last(err error) string {
	if err == nil {
		return "none found"
	}
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text
}

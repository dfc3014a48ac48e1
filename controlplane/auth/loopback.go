package auth

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// loopbackHost begins the Client of every identity on the loopback.
const loopbackHost = "loopback"

// stranger is a client that nothing identifies. On the loopback the kernel says
// which user owns the client's socket. Limits count each user separately. All users
// have the same role, because a process may hand its socket to another user's.
func (p *Policy) stranger(c net.Conn) Identity {
	id := Identity{Name: Anonymous, Origin: c.RemoteAddr().String(), Role: p.anonymous, Client: clientHost(c.RemoteAddr())}
	if id.Client != loopbackHost {
		return id
	}
	if uid, ok := p.kernel.Owner(c.RemoteAddr(), c.LocalAddr()); ok {
		id.Client += " uid " + strconv.FormatUint(uint64(uid), 10)
		id.Kept = uid == 0 || uid == p.owner
	}
	return id
}

// Local returns the user of this machine whose process connected without TLS. ok is false if
// the kernel knows none.
func (p *Policy) Local(c net.Conn) (uid uint32, ok bool) {
	switch u, unixSocket := unwrap(c).(*net.UnixConn); {
	case unixSocket:
		cred, err := p.kernel.Peer(u)
		if err != nil {
			return 0, false
		}
		return cred.Uid, true
	case clientHost(c.RemoteAddr()) == loopbackHost:
		return p.kernel.Owner(c.RemoteAddr(), c.LocalAddr())
	}
	return 0, false
}

// Sizes and offsets of sock_diag(7)'s inet_diag_req_v2, with its sockid, and
// of inet_diag_msg, after the netlink header of 16 bytes.
const (
	diagRequestSize = unix.SizeofNlMsghdr + 56
	diagUIDAt       = unix.SizeofNlMsghdr + 64
	diagAnswerSize  = unix.SizeofNlMsghdr + 72
	diagTimeout     = 1_000_000 // microseconds
)

// Owner implements Kernel by sock_diag(7).
func (machine) Owner(local, remote net.Addr) (uid uint32, ok bool) {
	from, err1 := netip.ParseAddrPort(local.String())
	to, err2 := netip.ParseAddrPort(remote.String())
	if err1 != nil || err2 != nil {
		return 0, false
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: diagTimeout - 1}); err != nil {
		return 0, false
	}
	if unix.Sendto(fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return 0, false
	}
	answer := make([]byte, 1024)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < diagAnswerSize || binary.NativeEndian.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return 0, false
	}
	return binary.NativeEndian.Uint32(answer[diagUIDAt:]), true
}

// diagRequest asks for one TCP socket.
func diagRequest(from, to netip.AddrPort) []byte {
	family := byte(unix.AF_INET6)
	src, dst := from.Addr().Unmap().AsSlice(), to.Addr().Unmap().AsSlice()
	if len(src) == 4 {
		family = unix.AF_INET
	}
	b := make([]byte, diagRequestSize)
	binary.NativeEndian.PutUint32(b, diagRequestSize)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	q := b[unix.SizeofNlMsghdr:]
	q[0], q[1] = family, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // any state
	id := q[8:]
	binary.BigEndian.PutUint16(id, from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:20], src)
	copy(id[20:36], dst)
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // no cookie
	return b
}

package main

import (
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
)

// mountVersion goes with version 3 of NFS (RFC 1813 §5).
const mountVersion = 3

// registrations of a service that answers over RDMA at an address, and
// perhaps on tcp. Clients of NFS over RDMA do MOUNT over TCP, so that it is
// MOUNT alone that is registered there.
func registrations(s *manager.ServiceSpec, tcp net.Listener, rdma netip.AddrPort) []rpcbind.Registration {
	over := rpcbind.Registration{Program: nfs.Program, Version: nfs.Version, Transport: rpcbind.RDMA, Address: rdma}
	if s.Echo != nil {
		over.Program, over.Version = echo.Program, echo.Version
	}
	if tcp == nil {
		return []rpcbind.Registration{over}
	}
	return []rpcbind.Registration{over, {
		Program: nfs.MountProgram, Version: mountVersion, Transport: rpcbind.TCP, Address: tcp.Addr().(*net.TCPAddr).AddrPort(),
	}}
}

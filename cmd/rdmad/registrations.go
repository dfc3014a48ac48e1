package main

import (
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// mountVersion is the version of MOUNT for NFS version 3 (RFC 1813 §5).
const mountVersion = 3

// registrations returns the registrations of a service at an RDMA address and, if tcp is valid, on
// TCP. Only MOUNT is registered on TCP, because clients of NFS over RDMA use MOUNT over
// TCP.
func registrations(s *spec.Service, tcp, rdma netip.AddrPort) []rpcbind.Registration {
	over := rpcbind.Registration{Program: nfs.Program, Version: nfs.Version, Transport: rpcbind.RDMA, Address: rdma}
	if s.Echo != nil {
		over.Program, over.Version = echo.Program, echo.Version
	}
	if !tcp.IsValid() {
		return []rpcbind.Registration{over}
	}
	return []rpcbind.Registration{over, {
		Program: nfs.MountProgram, Version: mountVersion, Transport: rpcbind.TCP, Address: tcp,
	}}
}

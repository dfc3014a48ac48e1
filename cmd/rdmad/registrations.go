package main

import (
	"net"
	"net/netip"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
)

// mountVersion goes with version 3 of NFS (RFC 1813 §5).
const mountVersion = 3

// bindRegistrar makes what tells rpcbind of the listeners that want it, which
// are bound, as are the services' TCP addresses. Without any it stays nil.
func (d *daemon) bindRegistrar(c *config.Config) error {
	bound := map[string]netip.AddrPort{}
	for _, l := range d.data.Listeners() {
		bound[l.Name] = l.Address
	}
	var list []rpcbind.Registration
	for _, l := range c.Listeners {
		if !l.RPCBind {
			continue
		}
		for i, s := range c.Services {
			if s.Name == l.Service {
				list = append(list, registrations(&c.Services[i], d.services[i].tcpOn, bound[l.Name])...)
			}
		}
	}
	if list == nil {
		return nil
	}
	var err error
	d.registrar, err = rpcbind.New(rpcbind.Config{Registrations: list, Logger: d.log})
	return err
}

// registrations of a service that answers over RDMA at an address, and
// perhaps on tcp. Clients of NFS over RDMA do MOUNT over TCP, so that it is
// MOUNT alone that is registered there.
func registrations(s *config.Service, tcp net.Listener, rdma netip.AddrPort) []rpcbind.Registration {
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

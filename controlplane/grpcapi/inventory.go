package grpcapi

import (
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/verbs/inventory"
)

func provider(p *inventory.Provider) *rdmadv1.Provider {
	return &rdmadv1.Provider{Name: p.Name, BuiltIn: p.BuiltIn, Note: p.Note}
}

func device(d *inventory.Device) *rdmadv1.Device {
	m := &rdmadv1.Device{Name: d.Name, Transport: d.Transport, Firmware: d.Firmware, Provider: d.Provider, Problem: d.Problem}
	for _, p := range d.Ports {
		port := &rdmadv1.DevicePort{Number: uint32(p.Number), State: p.State, Rate: p.Rate, LinkLayer: p.Link}
		for _, a := range p.Addresses {
			port.Addresses = append(port.Addresses, a.String())
		}
		m.Ports = append(m.Ports, port)
	}
	if l := d.Limits; l != nil {
		m.Capabilities = &rdmadv1.DeviceCapabilities{
			MemoryWindows_2B: l.MemWindowType2B, SendWithInvalidate: l.SendInvalidate, RnrRetry: l.ReceiverNotReady,
			MaxQp: uint32(l.MaxQP), MaxCq: uint32(l.MaxCQ), MaxMr: uint32(l.MaxMR), MaxMw: uint32(l.MaxMW), MaxSrq: uint32(l.MaxSRQ),
			MaxQpWr: uint32(l.MaxQPWR), MaxSge: uint32(l.MaxSGE), MaxCqe: uint32(l.MaxCQE), MaxMrSize: float64(l.MaxMRSize),
			MaxReadsIn: uint32(l.MaxReadsIn), MaxReadsOut: uint32(l.MaxReadsOut),
			ReadSinkRemoteWrite: l.ReadSinkRemoteWrite,
		}
	}
	return m
}

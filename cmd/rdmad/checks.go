package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// How often files and peers are checked, and how long a check may take.
const (
	filesEvery   = 15 * time.Second
	filesTimeout = 5 * time.Second
	peersEvery   = 30 * time.Second
	peersTimeout = 8 * time.Second
)

// devices returns the RDMA devices of the machine. Tests replace it.
var devices = providers.Devices

// own returns the conditions known in memory, except listeners, services and connectors.
func (h *health) own() (out []conditions.Finding) {
	if s := h.d.registrar.State(); s.Entries > 0 {
		f := conditions.Finding{Name: "rpcbind", Reason: conditions.RPCBindRegistered, Message: fmt.Sprintf("%d registrations", s.Entries)}
		switch {
		case !s.Asked:
			f.Reason = conditions.RPCBindUnasked
		case errors.As(s.Err, new(*rpcbind.TakenError)):
			f.Reason, f.Message = conditions.RPCBindTaken, s.Err.Error()
		case s.Err != nil:
			f.Reason, f.Message = conditions.RPCBindAway, s.Err.Error()
		}
		out = append(out, f)
	}
	if err := h.d.manager.LimitsTrouble(); err != nil {
		out = append(out, conditions.Finding{Name: "limits", Reason: conditions.LimitsLeftOut, Message: config.OneLine(err)})
	} else if _, changed := h.d.manager.Limits.Get(); len(changed) > 0 {
		out = append(out, conditions.Finding{Name: "limits", Reason: conditions.LimitsInForce})
	}
	if h.started.Load() {
		f := conditions.Finding{Name: "audit", Reason: conditions.AuditWritable}
		if err := h.d.control.AuditProblem(); err != nil {
			f.Reason, f.Message = conditions.AuditUnwritable, err.Error()
		}
		out = append(out, f)
	}
	return out
}

// checks returns the checks of files and peers.
func (h *health) checks() []conditions.Check {
	list := slices.Concat(h.d.services.checks(), h.certificates(), h.devices(), h.process())
	for name, c := range h.d.manager.Connecting() {
		list = append(list, conditions.Check{
			Kind: conditions.Target, Name: name, Of: c, Every: peersEvery, BackOff: true, Timeout: peersTimeout,
			Before: conditions.TargetUnprobed, Overdue: conditions.TargetSilent,
			Look: peer(c.Probe, conditions.TargetUnprobed, conditions.TargetAnswers, conditions.TargetGone, conditions.TargetSilent),
		})
	}
	state := h.d.state
	return append(list, conditions.Check{
		Kind: conditions.State, Name: "state", Every: filesEvery, Timeout: filesTimeout,
		Before: conditions.StateUnchecked, Overdue: conditions.StateNoAnswer,
		Look: func(context.Context) (*conditions.Reason, string) {
			r, text := conditions.StateDirectory(state.path, state.locked)
			if r.Status != conditions.Failed && h.started.Load() {
				h.d.control.RetryAudit() // there may be room again
				if err := h.d.control.Settings.Doubt(); err != nil {
					return conditions.StateInDoubt, err.Error()
				}
			}
			return r, text
		},
	})
}

// process returns the checks of what the process may use.
func (h *health) process() []conditions.Check {
	return []conditions.Check{
		{
			Kind: conditions.Memory, Name: "memory", Every: filesEvery, BackOff: true, Timeout: filesTimeout,
			Look: func(context.Context) (*conditions.Reason, string) {
				u := h.d.memory.Usage()
				return conditions.MemoryUse(u.Mapped, u.Go, u.Allowed(), u.Limit.Warning())
			},
		},
		{
			Kind: conditions.Descriptors, Name: "descriptors", Every: filesEvery, BackOff: true, Timeout: filesTimeout,
			Look: func(context.Context) (*conditions.Reason, string) {
				limit, err := descriptors.Limit()
				if err != nil {
					return conditions.DescriptorsFree, err.Error()
				}
				return conditions.DescriptorUse(descriptors.Open(), limit)
			},
		},
	}
}

// peer returns a check that probes a peer. probe reports whether there was a connection. When the process may have
// no more memory or open files, that says nothing about the peer.
func peer(probe func(context.Context) (bool, error), unprobed, answers, gone, silent *conditions.Reason) func(context.Context) (*conditions.Reason, string) {
	return func(ctx context.Context) (*conditions.Reason, string) {
		connected, err := probe(ctx)
		switch {
		case err == nil:
			return answers, ""
		case errors.Is(err, offheap.ErrLimit), lacksFile(err):
			return unprobed, err.Error()
		case connected:
			return silent, err.Error()
		}
		return gone, err.Error()
	}
}

// lacksFile reports whether there was no file descriptor. A lookup of a name has only the text of its error.
func lacksFile(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE}, func(e error) bool {
		return errors.Is(err, e) || strings.HasSuffix(err.Error(), e.Error())
	})
}

// checks returns the checks of exports and upstreams.
func (s *services) checks() (out []conditions.Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sv := range s.all {
		if sv.nfs != nil {
			out = append(out, exportChecks(sv, sv.nfs)...)
		}
	}
	for _, sv := range s.all {
		if f := sv.forward.Load(); f != nil {
			out = append(out, conditions.Check{
				Kind: conditions.Upstream, Name: sv.spec.Name, Of: sv, Every: peersEvery, BackOff: true, Timeout: peersTimeout,
				Before: conditions.UpstreamUnprobed, Overdue: conditions.UpstreamSilent,
				Look: peer(f.Probe, conditions.UpstreamUnprobed, conditions.UpstreamAnswers, conditions.UpstreamGone, conditions.UpstreamSilent),
			})
		}
	}
	return out
}

// certificates returns the checks of the TLS files of the control plane, the metrics and the console.
func (h *health) certificates() (out []conditions.Check) {
	if web := h.d.config.Load().Metrics.WebConfig; web != "" {
		out = append(out, h.certificate("metrics.web_config", func() (*conditions.Reason, string, time.Time) { return webCertificate(web) }))
	}
	if f := h.d.fleet; f != nil && f.cfg.TLS != nil {
		out = append(out, h.certificate("fleet.tls.cert", func() (*conditions.Reason, string, time.Time) {
			return conditions.Certificates(f.cfg.TLS.Cert, time.Now())
		}), h.certificate("fleet.tls.ca", func() (*conditions.Reason, string, time.Time) {
			return conditions.Authorities(f.cfg.TLS.CA, time.Now())
		}))
	}
	for section, files := range h.d.config.Load().Certificates() {
		out = append(out, h.certificate(section+".tls.cert", func() (*conditions.Reason, string, time.Time) { return certificate(files) }))
		if files.ClientCA != "" {
			out = append(out, h.certificate(section+".tls.client_ca", func() (*conditions.Reason, string, time.Time) {
				return conditions.Authorities(files.ClientCA, time.Now())
			}))
		}
	}
	return out
}

// webCertificate checks the certificate of the metrics, if they have one: their configuration may change at any time.
func webCertificate(web string) (*conditions.Reason, string, time.Time) {
	cert, err := metrics.WebCertificate(web)
	switch {
	case err != nil:
		return conditions.CertificateUnreadable, config.OneLine(err), time.Time{}
	case cert == "":
		return nil, "", time.Time{}
	}
	return conditions.Certificates(cert, time.Now())
}

// certificate returns the check of one file. look returns when the certificate expires, too.
func (h *health) certificate(name string, look func() (*conditions.Reason, string, time.Time)) conditions.Check {
	return conditions.Check{
		Kind: conditions.Certificate, Name: name, Every: filesEvery, Timeout: filesTimeout, Overdue: conditions.CertificateUnreadable,
		Look: func(context.Context) (*conditions.Reason, string) {
			reason, text, expires := look()
			h.expire(name, expires)
			return reason, text
		},
	}
}

// certificate checks rdmad's own certificate, and whether it matches the other files.
func certificate(files *auth.Files) (reason *conditions.Reason, text string, expires time.Time) {
	reason, text, expires = conditions.Certificates(files.Cert, time.Now())
	if reason.Status != conditions.Failed {
		if _, err := auth.LoadCertificates(*files, slog.New(slog.DiscardHandler)); err != nil {
			return conditions.CertificateUnreadable, err.Error(), expires
		}
	}
	return reason, text, expires
}

// expire records when a certificate expires.
func (h *health) expire(name string, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expires[name] = t
}

// expiry returns when the certificates expire, by name, if that is known.
func (h *health) expiry() map[string]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := maps.Clone(h.expires)
	maps.DeleteFunc(known, func(_ string, t time.Time) bool { return t.IsZero() })
	return known
}

// devices returns the checks of RDMA devices, including devices that are gone, while a
// provider that needs devices is in use.
func (h *health) devices() (out []conditions.Check) {
	h.d.opening.Lock()
	_, software := h.d.providers[providers.Default]
	inUse := len(h.d.providers)
	h.d.opening.Unlock()
	if inUse == 0 || inUse == 1 && software {
		return nil
	}
	there := devices() // may hang
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range there {
		h.seen[d.Name] = true
	}
	for name := range h.seen {
		out = append(out, conditions.Check{
			Kind: conditions.Device, Name: name, Every: filesEvery, Timeout: filesTimeout, Overdue: conditions.DeviceProblem,
			Look: func(context.Context) (*conditions.Reason, string) { return device(name, devices()) },
		})
	}
	return out
}

// device returns the condition of one device.
func device(name string, all []inventory.Device) (*conditions.Reason, string) {
	i := slices.IndexFunc(all, func(d inventory.Device) bool { return d.Name == name })
	if i < 0 {
		return conditions.DeviceMissing, name + " is gone"
	}
	d := &all[i]
	var ports []string
	active := false
	for _, p := range d.Ports {
		active = active || p.State == "ACTIVE"
		ports = append(ports, fmt.Sprintf("port %d is %s", p.Number, p.State))
	}
	switch {
	case d.Problem != "":
		return conditions.DeviceProblem, d.Problem
	case !active:
		return conditions.DeviceDown, strings.Join(ports, ", ")
	}
	return conditions.DeviceActive, strings.Join(ports, ", ")
}

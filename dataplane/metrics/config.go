package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	reloadsDesc = define(isCounter, "rdmad_config_reloads_total",
		"Reloads of the configuration file since the start, by result: success or failure.", "result")
	reloadOKDesc = define(isGauge, "rdmad_config_last_reload_successful",
		"1 if the last reload of the configuration file succeeded or there was none, 0 if it failed or is in force in part.")
	reloadTimeDesc = define(isGauge, "rdmad_config_last_reload_success_timestamp_seconds",
		"Time of the last successful reload of the configuration file, or of the start.")
	certificateDesc = define(isGauge, "rdmad_certificate_expiry_timestamp_seconds",
		"Time when a certificate expires, by the key that names its file. Of several certificates in a file, the first to expire.", "certificate")
)

// Reloads counts the reloads of the configuration file.
type Reloads struct {
	prometheus.Collector

	mu         sync.Mutex
	ok, failed uint64
	last       bool
	succeeded  time.Time
}

// NewReloads makes counters without reloads. rdmad started at the given time.
func NewReloads(start time.Time) *Reloads {
	r := &Reloads{last: true, succeeded: start}
	r.Collector = &group{[]*prometheus.Desc{reloadsDesc, reloadOKDesc, reloadTimeDesc}, r.collect}
	return r
}

// Record counts a reload.
func (r *Reloads) Record(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last = err == nil; r.last {
		r.ok++
		r.succeeded = now
	} else {
		r.failed++
	}
}

func (r *Reloads) collect(to sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to.counter(reloadsDesc, r.ok, "success")
	to.counter(reloadsDesc, r.failed, "failure")
	to.gauge(reloadOKDesc, truth(r.last))
	to.gauge(reloadTimeDesc, seconds(r.succeeded))
}

// NewCertificates makes a collector. expiry returns when certificates expire, by the key that
// names their file.
func NewCertificates(expiry func() map[string]time.Time) prometheus.Collector {
	return &group{[]*prometheus.Desc{certificateDesc}, func(to sink) {
		for key, t := range expiry() {
			to.gauge(certificateDesc, seconds(t), key)
		}
	}}
}

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// seconds returns t as Prometheus has times, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

package metrics

import (
	"errors"
	"testing"
	"time"
)

func TestReloads(t *testing.T) {
	start := time.Unix(1000, 0)
	r := NewReloads(start)
	r.Record(start.Add(time.Minute), nil)
	r.Record(start.Add(2*time.Minute), errors.New("no"))
	expect(t, r, `
# HELP rdmad_config_last_reload_success_timestamp_seconds Time of the last successful reload of the configuration file, or of the start.
# TYPE rdmad_config_last_reload_success_timestamp_seconds gauge
rdmad_config_last_reload_success_timestamp_seconds 1060
# HELP rdmad_config_last_reload_successful 1 if the last reload of the configuration file succeeded or there was none, 0 if it failed or is in force in part.
# TYPE rdmad_config_last_reload_successful gauge
rdmad_config_last_reload_successful 0
# HELP rdmad_config_reloads_total Reloads of the configuration file since the start, by result: success or failure.
# TYPE rdmad_config_reloads_total counter
rdmad_config_reloads_total{result="failure"} 1
rdmad_config_reloads_total{result="success"} 1
`)
}

func TestCertificates(t *testing.T) {
	c := NewCertificates(func() map[string]time.Time {
		return map[string]time.Time{"control.tls.cert": time.UnixMilli(1500)}
	})
	expect(t, c, `
# HELP rdmad_certificate_expiry_timestamp_seconds Time when a certificate expires, by the key that names its file. Of several certificates in a file, the first to expire.
# TYPE rdmad_certificate_expiry_timestamp_seconds gauge
rdmad_certificate_expiry_timestamp_seconds{certificate="control.tls.cert"} 1.5
`)
}

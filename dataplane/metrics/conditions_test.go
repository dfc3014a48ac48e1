package metrics

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

func TestConditions(t *testing.T) {
	r := conditions.NewRegistry()
	r.Set(conditions.Finding{Name: "nfs", Reason: conditions.ListenerUnreachable, Message: "gone"})
	r.Set(conditions.Finding{Name: "old", Reason: conditions.ListenerDraining})
	r.Set(conditions.Finding{Name: "nas", Reason: conditions.UpstreamGone})
	expect(t, NewConditions(r), `
# HELP rdmad_condition How a listener, service, upstream, export, certificate or another thing is: 1 for its status, 0 for the others.
# TYPE rdmad_condition gauge
rdmad_condition{kind="listener",name="nfs",status="DEGRADED"} 1
rdmad_condition{kind="listener",name="nfs",status="FAILED"} 0
rdmad_condition{kind="listener",name="nfs",status="OK"} 0
rdmad_condition{kind="listener",name="nfs",status="UNKNOWN"} 0
rdmad_condition{kind="listener",name="old",status="DEGRADED"} 1
rdmad_condition{kind="listener",name="old",status="FAILED"} 0
rdmad_condition{kind="listener",name="old",status="OK"} 0
rdmad_condition{kind="listener",name="old",status="UNKNOWN"} 0
rdmad_condition{kind="upstream",name="nas",status="DEGRADED"} 0
rdmad_condition{kind="upstream",name="nas",status="FAILED"} 1
rdmad_condition{kind="upstream",name="nas",status="OK"} 0
rdmad_condition{kind="upstream",name="nas",status="UNKNOWN"} 0
# HELP rdmad_listener_healthy 1 while clients can reach a listener, 0 while its device, port or address is gone.
# TYPE rdmad_listener_healthy gauge
rdmad_listener_healthy{listener="nfs"} 0
rdmad_listener_healthy{listener="old"} 1
`)
}

// Something that fails is named by /healthz, without what only operators may see,
// and /readyz is about the listeners.
func TestHealthOfConditions(t *testing.T) {
	health := healthy()
	url, r := serve(t, health), health.Conditions
	expect := func(path string, code int, body string) {
		t.Helper()
		if got, _, text := get(t, url+path, ""); got != code || text != body {
			t.Errorf("%s: %d %q, want %d %q", path, got, text, code, body)
		}
	}
	const remedy = "rdmactl conditions says why, and what to do\n"
	r.Set(conditions.Finding{Name: "nfs", Reason: conditions.ListenerUp})
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 200, "ok\n")
	r.Set(conditions.Finding{Name: "disk", Reason: conditions.ExportMissing, Message: "/srv/secret is not there"})
	expect("/healthz", 503, "failed\nexport/disk FAILED Missing\n"+remedy)
	expect("/readyz", 200, "ok\nexport/disk FAILED Missing\n"+remedy)
	r.Remove(conditions.Export, "disk")
	r.Set(conditions.Finding{Name: "nfs", Reason: conditions.ListenerUnreachable})
	expect("/healthz", 200, "ok\nlistener/nfs DEGRADED Unreachable\n"+remedy)
	expect("/readyz", 503, "not ready\nlistener/nfs DEGRADED Unreachable\n"+remedy)
	r.Set(conditions.Finding{Name: "nfs", Reason: conditions.ListenerUp})
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 200, "ok\n")
}

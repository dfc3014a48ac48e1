package metrics

import (
	"fmt"
	"io"
	"net/http"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Health is the state that /healthz and /readyz report.
type Health struct {
	Conditions *conditions.Registry
	// Phase returns why rdmad does not serve now, for example stopping, or "" while it
	// serves.
	Phase func() string
}

// healthz answers 503 while rdmad does not serve, or when something has failed. The body
// names what is not OK. Details, which may contain file names, are only in rdmactl.
func (h *Health) healthz(w http.ResponseWriter, _ *http.Request) {
	all := h.Conditions.List()
	h.answer(w, !all.Failed(), "failed", all)
}

// readyz answers 503 while rdmad does not serve, or while no listener is reachable.
func (h *Health) readyz(w http.ResponseWriter, _ *http.Request) {
	all := h.Conditions.List()
	h.answer(w, all.Reachable(), "not ready", all)
}

func (h *Health) answer(w http.ResponseWriter, well bool, otherwise string, all conditions.List) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if phase := h.Phase(); phase != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, phase)
		return
	}
	if well {
		fmt.Fprintln(w, "ok")
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, otherwise)
	}
	bad := all.NotOK()
	for i := range bad {
		bad[i].Message = ""
		fmt.Fprintln(w, bad[i].String())
	}
	if len(bad) > 0 {
		_, _ = io.WriteString(w, "rdmactl conditions says why, and what to do\n")
	}
}

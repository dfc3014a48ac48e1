package main

import (
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

// certificates makes ca.pem, and from it rdmad.pem for 127.0.0.1, olga.pem
// and, out of date, late.pem; and from another authority, other/ca.pem, the
// client other/stranger.pem. Keys are beside them: certificates.
func certificates(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.Mkdir(ts.MkAbs("other"), 0o755))
	for dir, names := range map[string]map[string]time.Duration{
		".":     {"rdmad": time.Hour, "olga": time.Hour, "late": -time.Minute},
		"other": {"stranger": time.Hour},
	} {
		ca, err := authtest.NewCA(ts.MkAbs(dir))
		ts.Check(err)
		for name, valid := range names {
			ts.Check(ca.Issue(name, valid))
		}
	}
}

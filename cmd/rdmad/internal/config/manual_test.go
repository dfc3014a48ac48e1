package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/cmd/internal/manual"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// The parts of rdmad.yaml(5) that are not about keys.
const (
	manualBegin = `.SH NAME
rdmad.yaml \- configuration of rdmad
.SH DESCRIPTION
The file is YAML. A file whose name ends in .toml is TOML, one in .json is JSON. rdmad checks the whole
file before it starts anything. It prints one line with file, line and key for each unknown key and for
each value out of range.
.B rdmad check \-\-config
.I FILE
does the same and starts nothing.
.PP
Sizes take KiB, MiB, GiB and TiB. Times have a unit, such as 500ms, 10s, 6m or 8h. Environment variables
and flags override the file, see
.BR rdmad (8).
.PP
A key is written here with dots: limits.memory is memory in the section limits.
/usr/share/doc/rdmad/configuration.md and listeners.md have examples; settings.md describes the live settings.
`
	manualEnd = `.SH FILES
.I /etc/rdmad/rdmad.yaml
.PP
.I /usr/share/doc/rdmad/examples
.SH SEE ALSO
.BR rdmad (8),
.BR rdmactl (1)
`
)

// TestManual: rdmad.yaml(5) has the keys of the types, and the live settings. With
// -update it is written.
func TestManual(t *testing.T) {
	var page strings.Builder
	page.WriteString(".\\\" Written by make generate.\n.TH RDMAD.YAML 5\n" + manualBegin)
	for _, part := range []struct {
		title, text string
		of          reflect.Type
	}{
		{"KEYS", "Every section is optional.", reflect.TypeFor[Config]()},
		{"ROLES", "Each item of the list control.roles has these keys.", reflect.TypeFor[Role]()},
		{"LISTENERS", "Each item of the list listeners has these keys.", reflect.TypeFor[spec.Listener]()},
		{"SERVICES", "Each item of the list services has a name and one of nfs, forward and echo, which has no keys. nfs has these keys.", reflect.TypeFor[spec.NFS]()},
		{"CLIENTS", "Each item of a list of clients has these keys.", reflect.TypeFor[spec.ExportClient]()},
		{"FORWARD", "forward has these keys.", reflect.TypeFor[spec.Forward]()},
		{"CONNECTORS", "Each item of the list connectors has these keys.", reflect.TypeFor[spec.Connector]()},
	} {
		fmt.Fprintf(&page, ".SH %s\n%s\n", part.title, part.text)
		for k := range keys(part.of) {
			manualKey(&page, k)
		}
	}
	page.WriteString(".SH LIVE SETTINGS\nsettings has them for all connections. scopes has them for one listener or connector (listener/NAME) or for one network (peer/CIDR).\n")
	for k := range live.NumKeys {
		r := k.Row()
		manualKey(&page, key{r.Name, r.Allowed(), r.Format(r.Default), r.Summary})
	}
	manual.Check(t, "../../../../configs/debian/man/rdmad.yaml.5", page.String()+manualEnd, *update)
}

func manualKey(page *strings.Builder, k key) {
	initial := ""
	if k.initial != "" {
		initial = ", default " + k.initial
	}
	fmt.Fprintf(page, ".TP\n.BR %s \" (%s)\"\n%s\n", manual.Roff(k.name), manual.Roff(strings.ReplaceAll(k.value+initial, `"`, "")), manual.Roff(manual.Plain(k.meaning)))
}

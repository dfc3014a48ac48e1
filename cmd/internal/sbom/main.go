// Command sbom writes a software bill of materials of Go programs, in SPDX 2.3 JSON:
// the modules that each program is made of, as the linker recorded them.
//
//	sbom -version V -time SECONDS PROGRAM…
//
// The same programs give the same bytes.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func main() {
	version := flag.String("version", "", "version of the programs")
	seconds := flag.Int64("time", 0, "time of the document, in seconds since 1970")
	flag.Parse()
	text, err := document(*version, time.Unix(*seconds, 0).UTC(), flag.Args())
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// The parts of SPDX 2.3 that are used.
type (
	spdx struct {
		Version       string         `json:"spdxVersion"`
		DataLicense   string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []pkg          `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	pkg struct {
		ID        string      `json:"SPDXID"`
		Name      string      `json:"name"`
		Version   string      `json:"versionInfo"`
		File      string      `json:"packageFileName,omitempty"`
		Location  string      `json:"downloadLocation"`
		Analyzed  bool        `json:"filesAnalyzed"`
		Checksums []checksum  `json:"checksums,omitempty"`
		Declared  string      `json:"licenseDeclared"`
		Concluded string      `json:"licenseConcluded"`
		Copyright string      `json:"copyrightText"`
		Refs      []reference `json:"externalRefs,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// unknown is SPDX's word for what nobody looked at.
const unknown = "NOASSERTION"

// document describes programs. Each module is in it once.
func document(version string, at time.Time, programs []string) ([]byte, error) {
	d := spdx{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "rdmad-" + version,
		Creation: creation{at.Format(time.RFC3339), []string{"Organization: rdmad"}}, Relationships: []relationship{},
	}
	all := sha256.New()
	modules := map[string]pkg{}
	for _, file := range programs {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all.Write(text)
		sum := sha256.Sum256(text)
		name := filepath.Base(file)
		program := pkg{
			ID: id("Program", name), Name: name, Version: version, File: name, Location: unknown,
			Checksums: []checksum{{"SHA256", hex.EncodeToString(sum[:])}}, Declared: "Apache-2.0", Concluded: "Apache-2.0", Copyright: unknown,
		}
		d.Packages = append(d.Packages, program)
		d.Relationships = append(d.Relationships, relationship{d.ID, "DESCRIBES", program.ID})
		for _, m := range append(info.Deps, &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}) {
			p := module(m)
			modules[p.ID] = p
			d.Relationships = append(d.Relationships, relationship{program.ID, "STATIC_LINK", p.ID})
		}
	}
	d.Namespace = "https://github.com/rdmad/rdmad/sbom/" + hex.EncodeToString(all.Sum(nil))
	for _, p := range modules {
		d.Packages = append(d.Packages, p)
	}
	slices.SortFunc(d.Packages[len(programs):], func(a, b pkg) int { return strings.Compare(a.ID, b.ID) })
	text, err := json.MarshalIndent(&d, "", "  ")
	return append(text, '\n'), err
}

// module describes a module of a program.
func module(m *debug.Module) pkg {
	if m.Replace != nil {
		m = m.Replace
	}
	return pkg{
		ID: id("Module", m.Path+"-"+m.Version), Name: m.Path, Version: m.Version, Location: unknown, Declared: unknown, Concluded: unknown, Copyright: unknown,
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
}

// id makes an SPDX identifier: letters, digits, dots and dashes.
func id(kind, name string) string {
	return "SPDXRef-" + kind + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, name)
}

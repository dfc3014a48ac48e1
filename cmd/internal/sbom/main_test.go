package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// TestDocument describes the test itself, twice the same.
func TestDocument(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 0).UTC()
	text, err := document("v1.2.3", at, []string{program})
	if err != nil {
		t.Fatal(err)
	}
	again, err := document("v1.2.3", at, []string{program})
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("two documents of one program differ: %v", err)
	}
	var d spdx
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Creation.Created != "2023-11-14T22:13:20Z" || d.Name != "rdmad-v1.2.3" {
		t.Errorf("%s created %s", d.Name, d.Creation.Created)
	}
	ids := map[string]bool{d.ID: true}
	std := false
	for _, p := range d.Packages {
		if ids[p.ID] {
			t.Errorf("%s is in it twice", p.ID)
		}
		ids[p.ID] = true
		std = std || p.Name == "stdlib" && p.Version != ""
	}
	if !std || len(d.Packages[0].Checksums) != 1 {
		t.Errorf("the standard library or the program's checksum is not in\n%s", text)
	}
	for _, r := range d.Relationships {
		if !ids[r.From] || !ids[r.To] {
			t.Errorf("%+v names what is not there", r)
		}
	}
	if _, err := document("v", at, []string{"main.go"}); err == nil {
		t.Error("a file that is no program is described")
	}
}

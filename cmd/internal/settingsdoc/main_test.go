package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// The settings page matches the catalogue.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := fill(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if page != string(text) {
		t.Error("docs/settings.md is not what the catalogue makes: run make generate")
	}
	for k := range settings.NumKeys {
		if !strings.Contains(page, "\n### "+k.String()+"\n") {
			t.Errorf("%s has no section", k)
		}
	}
}

// A page without marks is left as it is.
func TestNoMarks(t *testing.T) {
	if page, err := fill("# Settings\n"); err == nil {
		t.Errorf("made %q", page)
	}
}

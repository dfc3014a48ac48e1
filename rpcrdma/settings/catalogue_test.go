package settings

import (
	"reflect"
	"strings"
	"testing"
)

// Every row is whole: whoever adds a setting is told here what is missing.
func TestRows(t *testing.T) {
	seen := make(map[string]bool)
	for k := range NumKeys {
		r := k.Row()
		for what, missing := range map[string]bool{
			"a name of two parts": strings.Count(r.Name, ".") != 1,
			"a name of its own":   seen[r.Name],
			"a field":             r.field.get == nil || r.field.set == nil,
			"a unit":              r.Texts() == nil && (r.Unit == "" || r.Max <= r.Min),
			"choices":             r.Kind == Choice && len(r.Choices) < 2,
			"a summary":           !strings.HasSuffix(r.Summary, "."),
			"details":             !strings.HasSuffix(r.Details, "."),
			"when it is in force": r.InForce == "",
			"an example":          !strings.Contains(r.Example, r.Name+"="),
			"a good default":      r.OutOfRange(r.Default) != "",
		} {
			if missing {
				t.Errorf("row %d, %q, lacks %s", k, r.Name, what)
			}
		}
		seen[r.Name] = true
	}
}

// Each row has a field of its own, and all fields have rows.
func TestFields(t *testing.T) {
	var none Settings
	for k := range NumKeys {
		s := none
		r := k.Row()
		top := r.Max
		if texts := r.Texts(); texts != nil {
			top = uint32(len(texts) - 1)
		}
		for value := range min(top, 3) + 1 {
			r.field.set(&s, value)
			if got := r.field.get(&s); got != value {
				t.Errorf("%s: %d became %d", k, value, got)
			}
		}
		r.field.set(&s, top)
		if got := Changed(&none, &s); got != KeySet(0).With(k) {
			t.Errorf("%s sets %v", k, got)
		}
	}
	fields := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		if f.IsExported() {
			fields++
		}
	}
	if want := fields - 1 + len(Match("extensions").Keys()); int(NumKeys) != want {
		t.Errorf("%d rows for %d fields", NumKeys, want)
	}
}

// Texts are read back as the values that they were written for.
func TestTexts(t *testing.T) {
	for text, want := range map[string]uint32{"8KiB": 8192, "8 KiB": 8192, "1MiB": 1 << 20, "3GiB": 3 << 30, "4096": 4096} {
		if got, err := InlineSendMax.Row().Parse(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "8kb", "4GiB", "-1", "1.5KiB", "99999999999999999999"} {
		if got, err := InlineSendMax.Row().Parse(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	if got, err := CreditsMax.Row().Parse("1KiB"); err == nil {
		t.Errorf("1KiB calls are %d", got)
	}
	for text, want := range map[string]uint32{"on": 1, "true": 1, "Yes": 1, "off": 0, "false": 0, "no": 0} {
		if got, err := ExtensionV2.Row().Parse(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// Peers are asked about only where a row has an outcome.
func TestAskPeers(t *testing.T) {
	if of(CreditsMax, DDPMinChunk).AskPeers() || !of(CreditsMax, InlineSendMax).AskPeers() {
		t.Error("asked of the wrong keys")
	}
}

// Default takes what the rows say.
func TestDefault(t *testing.T) {
	d := Default()
	if d.InlineSendMax != 4096 || d.CreditsMax != 64 || d.CreditsBackchannel != 16 || d.Placement != PlaceBySize ||
		d.Extensions != ExtBackchannel || !d.RemoteInvalidationAccept {
		t.Errorf("%+v", d)
	}
}

package providers

import (
	"slices"
	"testing"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// Every provider is listed once, with how to get it when the build lacks it.
func TestInventory(t *testing.T) {
	all := Inventory()
	for _, p := range all {
		if _, ok := makers[p.Name]; ok != p.BuiltIn || p.BuiltIn != (p.Note == "") {
			t.Errorf("got %+v", p)
		}
	}
	for _, name := range []string{Default, "rdmacore"} {
		if n := len(slices.DeleteFunc(slices.Clone(all), func(p inventory.Provider) bool { return p.Name != name })); n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}

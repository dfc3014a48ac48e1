package spec

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
)

// TestTextOfSections: a list of sections is in one line, as the file and the command line have it.
func TestTextOfSections(t *testing.T) {
	s := Service{Name: "many", NFS: &NFS{Exports: []Export{
		{Path: "/srv/a", AnonUID: 99},
		{Path: "/srv/b", Clients: []ExportClient{{Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, ReadOnly: true}}},
	}}}
	const list = `[{"anonuid":99,"path":"/srv/a"},{"clients":[{"networks":["192.0.2.0/24"],"read_only":true}],"path":"/srv/b"}]`
	if got := String(&s); got != "name=many nfs nfs.exports="+list {
		t.Errorf("got %s", got)
	}
	var values []any
	if err := json.Unmarshal([]byte(list), &values); err != nil {
		t.Fatal(err)
	}
	var back Service
	if err := Decode(map[string]any{"name": "many", "nfs": map[string]any{"exports": values}}, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%+v, %v", back, err)
	}
}

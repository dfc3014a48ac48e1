package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/dataplane"
)

// fill gives each field of a specification a value, or none.
func fill(t *rapid.T, root reflect.Value, name string) {
	for f := range Fields(root.Type().Elem()) {
		v := f.In(root, false)
		if f.Section() || !v.IsValid() || !rapid.Bool().Draw(t, name+f.Path) {
			continue
		}
		switch v.Interface().(type) {
		case []netip.Prefix:
			v.Set(reflect.ValueOf([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}[:rapid.IntRange(1, 2).Draw(t, "length")]))
			continue
		case time.Duration:
			v.SetInt(rapid.Int64Range(1, 100).Draw(t, "time") * int64(time.Second))
			continue
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(rapid.StringMatching(`[a-z]{1,3}`).Draw(t, "text"))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Slice:
			list := reflect.MakeSlice(v.Type(), rapid.IntRange(1, 3).Draw(t, "items"), 3)
			for i := range list.Len() {
				fill(t, list.Index(i).Addr(), name+f.Path)
			}
			v.Set(list)
		default:
			v.SetInt(rapid.Int64Range(1, 1<<20).Draw(t, "number"))
		}
	}
}

// roundTrip makes two specifications, and the second of the first by the stored difference.
func roundTrip[S any](t *rapid.T, empty func() S) {
	from, to := empty(), empty()
	fill(t, reflect.ValueOf(&from), "from ")
	fill(t, reflect.ValueOf(&to), "to ")
	d := Difference(&from, &to)
	if (len(d) == 0) != reflect.DeepEqual(from, to) {
		t.Errorf("%v between %+v and %+v", d, from, to)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var stored Delta
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&stored); err != nil {
		t.Fatal(err)
	}
	for _, d := range []Delta{d, stored} {
		got := empty()
		Copy(&got, &from, func(*Field) bool { return true })
		if err := d.Apply(&got); err != nil || !reflect.DeepEqual(got, to) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", b, err, got, to)
		}
	}
}

// TestDifference: the difference of two specifications makes the second of the first, also
// after it was stored. It is empty if they are the same.
func TestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		roundTrip(t, func() Listener { return Listener{} })
		roundTrip(t, func() Connector { return Connector{} })
		roundTrip(t, func() Service { return Service{NFS: &NFS{}} })
		roundTrip(t, func() Service { return Service{Forward: &Forward{}} })
		roundTrip(t, func() Limits { return Limits{} })
	})
}

// TestApplyElsewhere: fields of a kind that the service no longer has are left out, unknown ones
// are an error.
func TestApplyElsewhere(t *testing.T) {
	s := Service{Name: "a", Forward: &Forward{Address: "h:1"}}
	if err := (Delta{"nfs.path": "/srv", "forward.address": "h:2"}).Apply(&s); err != nil || s.NFS != nil || s.Forward.Address != "h:2" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := (Delta{"speed": 1}).Apply(&s); err == nil || !strings.Contains(err.Error(), "speed") {
		t.Errorf("error %v", err)
	}
	if err := (Delta{"limits.connections": "many"}).Apply(&Listener{}); err == nil {
		t.Error("many are a number")
	}
}

// TestLimitsCheck: every fault is named.
func TestLimitsCheck(t *testing.T) {
	l := Limits{Limits: dataplane.Limits{Connections: -1}, Memory: 1, TCPIdle: 1}
	l.Control.Idle, l.Metrics.Reserved = 1, 1
	all, _ := errors.AsType[Errors](l.Check())
	var fields []string
	for _, e := range all {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != "connections memory tcp_idle control.idle metrics.reserved" {
		t.Errorf("faults in %s: %v", got, all)
	}
	if err := (&Limits{}).Check(); err != nil {
		t.Error(err)
	}
}

// TestLimitsOver: of stored limits, those that are out of range or don't go with the others are left
// out, and nothing else is.
func TestLimitsOver(t *testing.T) {
	file := Limits{TCPConnections: 9}
	file.Control.Reserved = 20
	for _, c := range []struct {
		stored Delta
		kept   string
		left   string // start of the error
	}{
		{nil, "", ""},
		{Delta{"connections": 7, "idle": "2s"}, "connections idle", ""},
		{Delta{"connections": 7, "idle": "10ms"}, "connections", "idle: 10ms is out of range 1s..720h"},
		{Delta{"control.reserved": 300, "idle": "1h"}, "idle", "control.reserved: 300 of 256 connections leaves none for other clients"},
		{Delta{"control.connections": 20, "idle": "1h"}, "", "control.reserved: 20 of 20 connections"},
	} {
		now, kept, left, err := file.Over(c.stored)
		text := ""
		if left != nil {
			text = left.Error()
		}
		if got := strings.Join(slices.Sorted(maps.Keys(kept)), " "); got != c.kept || err != nil || now.Check() != nil || !strings.HasPrefix(text, c.left) || (text == "") != (c.left == "") {
			t.Errorf("%v: kept %q, left out %q, %v, %+v", c.stored, got, text, err, now)
		}
	}
	if _, _, _, err := file.Over(Delta{"speed": 1}); err == nil {
		t.Error("a damaged delta")
	}
}

// TestStoredProblems: what is out of range is named with its element.
func TestStoredProblems(t *testing.T) {
	all := All{
		Listeners: []Listener{{Name: "a", Provider: "p", Address: "h:1", Service: "s", Limits: dataplane.Limits{Idle: 1}}},
		Changed: Changes{
			Listeners: map[string]Delta{"b": {"limits.idle": "500ms", "limits.connections": 3, "allow": nil}},
			Services:  map[string]Delta{"s": {"nfs.anonuid": 7}},
			Limits:    Delta{"tcp_idle": "1s"},
		},
	}
	want := "listener a: limits.idle: 1ns is out of range 1s..720h\nlistener b: limits.idle: 500ms is out of range 1s..720h\nlimits.tcp_idle: 1s is out of range 10s..24h"
	if got := strings.Join(StoredProblems(&all), "\n"); got != want {
		t.Errorf("problems:\n%s", got)
	}
}

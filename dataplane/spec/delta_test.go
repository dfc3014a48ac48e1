package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
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
	if got := strings.Join(fields, " "); got != "connections tcp_idle memory control.idle metrics.reserved" {
		t.Errorf("faults in %s: %v", got, all)
	}
	if err := (&Limits{}).Check(); err != nil {
		t.Error(err)
	}
}

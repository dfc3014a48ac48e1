package manager

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// importAll imports, and waits until what was replaced and removed is gone.
func (r *rig) importAll(w *Wanted) error {
	p, err := r.PrepareImport(r.t.Context(), w)
	if err != nil {
		return err
	}
	wait, err := p.CommitImport(0, r.store.Save)
	if err != nil {
		return err
	}
	wait()
	return nil
}

// origins are the services and listeners, as in names.
func (r *rig) origins() string {
	var out []string
	for _, s := range r.Services.List() {
		out = append(out, s.Spec.Name+"/"+s.Spec.Kind()+"/"+s.Origin.String())
	}
	return strings.Join(out, " ") + "; " + r.names()
}

// TestImport: what an import makes of a file's elements and of additions is there at once, after
// a restart, and after reloads. Elements that the import does not change continue.
func TestImport(t *testing.T) {
	r := newRig(t)
	file := spec.All{
		Services:  []spec.Service{echoService("steady"), nfsAt("disk", "/a"), echoService("other"), echoService("going")},
		Listeners: []spec.Listener{onLoopback("steady", "steady"), onLoopback("limits", "steady"), onLoopback("disk", "disk"), onLoopback("going", "going"), onLoopback("turning", "steady")},
	}
	r.restart(&file)
	r.addListener(onLoopback("added", "steady"))
	r.addListener(onLoopback("dropped", "steady"))
	if _, err := r.Listeners.Remove(t.Context(), "going", 0); err != nil { // an import knows that the file has it
		t.Fatal(err)
	}
	steady, limits, disk := r.dial(r.listener("steady")), r.dial(r.listener("limits")), r.dial(r.listener("disk"))
	added := r.listener("added").Spec
	w := &Wanted{All: spec.All{
		Services: []spec.Service{echoService("steady"), nfsAt("disk", "/b"), nfsAt("other", "/o"), echoService("new")},
		Listeners: []spec.Listener{
			onLoopback("steady", "steady"), onLoopback("limits", "steady"), onLoopback("disk", "disk"), added, onLoopback("new", "new"), onLoopback("turning", "new"),
		},
	}}
	w.Listeners[1].Limits = dataplane.Limits{Connections: 9}
	p, err := r.PrepareImport(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	var changes []string
	all, _ := p.Changes()
	for _, c := range all {
		changes = append(changes, string(c.Action)+" "+c.What+" "+c.Name)
	}
	if want := []string{
		"replaced service disk", "removed service going", "added service new", "replaced service other",
		"replaced listener disk", "removed listener dropped", "changed listener limits", "added listener new", "replaced listener turning",
	}; !slices.Equal(changes, want) {
		t.Errorf("changes %q, want %q", changes, want)
	}
	wait, err := p.CommitImport(0, r.store.Save)
	if err != nil {
		t.Fatal(err)
	}
	wait()
	<-disk.Done()
	if err := errors.Join(r.null(steady), r.null(limits)); err != nil {
		t.Errorf("those that stay: %v", err)
	}
	if l := r.listener("limits"); l.Live.Limits.Connections != 9 || !slices.Equal(l.Changed, []string{"limits.connections"}) {
		t.Errorf("%+v", l)
	}
	const want = "disk/nfs/config new/echo/runtime other/nfs/runtime steady/echo/config; " +
		"added/runtime disk/config limits/config new/runtime steady/config turning/runtime"
	check := func(when string) {
		t.Helper()
		if got := r.origins(); got != want {
			t.Errorf("%s there is %s\nnot %s", when, got, want)
		}
		if s := r.service("disk"); s == nil || s.path != "/b" {
			t.Errorf("%s disk is %+v", when, s)
		}
	}
	check("after the import")
	if r.store.saved.Imports != 1 {
		t.Errorf("%d imports", r.store.saved.Imports)
	}
	r.restart(&file)
	check("after a restart")
	more := file
	more.Listeners = append(slices.Clone(file.Listeners), onLoopback("late", "steady"))
	if err := r.reloadAll(&more, 0); err != nil {
		t.Fatal(err)
	}
	if got := r.origins(); !strings.Contains(got, " late/config") {
		t.Errorf("a listener of a later version of the file is not there: %s", got)
	}
	if err := r.reloadAll(&file, 0); err != nil {
		t.Fatal(err)
	}
	check("after reloads")
	if r.log.Lines("service=\"other, going\"") == nil || r.log.Lines("listener=\"going, turning\"") == nil {
		t.Error("the log does not name what the file has in vain")
	}
	more.Listeners[len(more.Listeners)-1] = onLoopback("late", "going")
	r.restart(&more)
	if l := r.listener("late"); l.State != StateFailed {
		t.Errorf("a listener for a service that is out of service: %+v", l)
	}
	r.restart(&file)

	// The file itself puts everything back, and nothing is left of imports.
	if err := r.importAll(&Wanted{All: file}); err != nil {
		t.Fatal(err)
	}
	const back = "disk/nfs/config going/echo/config other/echo/config steady/echo/config; disk/config going/config limits/config steady/config turning/config"
	if got := r.origins(); got != back {
		t.Errorf("after the file there is %s\nnot %s", got, back)
	}
	if saved := r.store.saved; !reflect.DeepEqual(saved, spec.All{Imports: 2}) {
		t.Errorf("stored %+v", saved)
	}
}

// TestImportLeavesAlone: a list that an import does not have stays, whatever is in it.
func TestImportLeavesAlone(t *testing.T) {
	r := newRig(t)
	file := spec.All{Services: []spec.Service{nfsAt("disk", "/a")}, Listeners: []spec.Listener{onLoopback("disk", "disk")}}
	r.restart(&file)
	r.addListener(onLoopback("added", "disk"))
	client := r.dial(r.listener("added"))
	before := r.listener("added").Live.Address
	if err := r.importAll(&Wanted{All: spec.All{Services: []spec.Service{nfsAt("disk", "/b")}}}); err != nil {
		t.Fatal(err)
	}
	<-client.Done() // its service was replaced
	if got := r.origins(); got != "disk/nfs/config; added/runtime disk/config" || r.listener("added").Live.Address != before {
		t.Errorf("there is %s", got)
	}
	err := r.importAll(&Wanted{All: spec.All{Services: []spec.Service{echoService("other")}}})
	if inUse := new(InUseError); !errors.As(err, &inUse) || len(inUse.Listeners) != 2 {
		t.Errorf("a service in use was removed: %v", err)
	}
	if err := r.importAll(&Wanted{All: spec.All{Listeners: []spec.Listener{}}}); err != nil || r.names() != "" {
		t.Errorf("an empty list: %v, there is %s", err, r.names())
	}
	r.restart(&file)
	if got := r.origins(); got != "disk/nfs/config; " {
		t.Errorf("after a restart there is %s", got)
	}
	r.store.err = errors.New("disk full")
	if r.importAll(&Wanted{All: spec.All{Listeners: file.Listeners}}) == nil {
		t.Error("not stored, and no error")
	}
	r.store.err = nil
	r.addListener(onLoopback("disk", "disk")) // its name is free
	r.restart(&file)
	if got := r.origins(); got != "disk/nfs/config; disk/runtime" {
		t.Errorf("after an addition and a restart there is %s", got)
	}
	if err := r.importAll(&Wanted{All: spec.All{Listeners: file.Listeners}}); err != nil {
		t.Error(err)
	}
	if got := r.origins(); got != "disk/nfs/config; disk/config" || len(r.store.saved.Listeners) > 0 {
		t.Errorf("after an import of the file's there is %s, stored %+v", got, r.store.saved)
	}
}

// TestImportOfNothing: if something can't be had or stored, everything stays, limits too.
func TestImportOfNothing(t *testing.T) {
	r := newRig(t)
	r.fileLimits = spec.Limits{TCPIdle: time.Hour}
	file := spec.All{Services: []spec.Service{echoService("steady")}, Listeners: []spec.Listener{onLoopback("steady", "steady")}}
	r.restart(&file)
	r.addListener(onLoopback("added", "steady"))
	client := r.dial(r.listener("added"))
	saved, limits := r.store.saved, r.bounds
	w := &Wanted{All: spec.All{Services: []spec.Service{nfsAt("disk", "/a")}, Listeners: []spec.Listener{onLoopback("disk", "disk")}}, Limits: &spec.Limits{TCPIdle: time.Minute}}
	same := func(err error) {
		t.Helper()
		if err == nil || r.origins() != "steady/echo/config; added/runtime steady/config" || !reflect.DeepEqual(r.store.saved, saved) {
			t.Errorf("%v, and there is %s, stored %+v", err, r.origins(), r.store.saved)
		}
		if now, changed := r.Limits.Get(); now.TCPIdle != time.Hour || len(changed) > 0 || r.bounds != limits {
			t.Errorf("limits %+v, changed %v", now, changed)
		}
		if err := r.null(client); err != nil {
			t.Error(err)
		}
		if r.service("disk") != nil {
			t.Error("the service is still open")
		}
	}
	r.openErr = errors.New("no such directory")
	same(r.importAll(w))
	r.openErr = nil
	r.store.err = errors.New("disk full")
	same(r.importAll(w))
	r.store.err = nil
	p, err := r.PrepareImport(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	p.Discard()
	same(errors.New("discarded"))
	if err := r.importAll(w); err != nil {
		t.Error(err)
	}
	if now, changed := r.Limits.Get(); now.TCPIdle != time.Minute || !slices.Equal(changed, []string{"tcp_idle"}) {
		t.Errorf("limits %+v, changed %v", now, changed)
	}
}

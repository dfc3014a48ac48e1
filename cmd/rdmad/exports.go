package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// missingExports returns a line for each directory of the configuration that can't be
// exported, or that the state directory is in. It does not look whether the default directory
// exists, and at services that operators changed or an import took out of service. read is
// readExport, or limits its time.
func missingExports(c *config.Config, changed *spec.Changes, read func(path string) error) (errs configfile.Errors) {
	for i := range c.Services {
		name := c.Services[i].Name
		if changed.Services[name] == nil && !slices.Contains(changed.Removed.Services, name) {
			errs = append(errs, missingExportsOf(c, i, read)...)
		}
	}
	return errs
}

// missingExportsOf is missingExports for one service.
func missingExportsOf(c *config.Config, service int, read func(path string) error) (errs configfile.Errors) {
	n := c.Services[service].NFS
	if n == nil {
		return nil
	}
	wrong := make(map[string]bool)
	note := func(key string, at config.Origin, err error) {
		wrong[key] = true
		errs = append(errs, &config.Error{Origin: at, Key: key, Msg: err.Error()})
	}
	readExports(n, read, func(key string, err error) {
		key = fmt.Sprintf("services[%d].%s", service, key)
		if at := c.Origins.Of(key); err != nil && at != (config.Origin{}) || errors.As(err, new(*noAnswerError)) {
			note(key, at, err)
		}
	})
	all, keys := n.All()
	dir := (&state{path: c.State.Path}).service(c.Services[service].Name)
	for k := range all {
		key := fmt.Sprintf("services[%d].%spath", service, keys[k])
		if wrong[key] {
			continue
		}
		if err := nfs.KeepOut(dir, all[k].Path); err != nil {
			note(key, c.Origins.Of(key), err)
		}
	}
	return errs
}

// makeDefaultExport makes the directory that rdmad exports if the configuration names none.
func makeDefaultExport(c *config.Config, changed *spec.Changes) error {
	for i, s := range c.Services {
		if s.NFS == nil || c.Origins.Of(fmt.Sprintf("services[%d].nfs.path", i)) != (config.Origin{}) || s.NFS.Path != config.DefaultExport || slices.Contains(changed.Removed.Services, s.Name) {
			continue
		}
		if err := os.Mkdir(s.NFS.Path, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // all users of the clients go through it
			return fmt.Errorf("service %s: %w", s.Name, err)
		}
	}
	return nil
}

// readExports makes sure that the directories of a service exist, can be read, and don't
// overlap. It reports each with its key, and an error or nil.
func readExports(n *spec.NFS, read func(path string) error, report func(key string, err error)) {
	all, keys := n.All()
	var good []string
	for i := range all {
		err := read(all[i].Path)
		for _, other := range good {
			if err == nil {
				err = nfs.Overlap(all[i].Path, other)
			}
		}
		if err == nil {
			good = append(good, all[i].Path)
		}
		report(keys[i]+"path", err)
	}
}

// unmounted returns a line for each export of the configuration that waits for its file
// system.
func unmounted(c *config.Config) (lines []string) {
	for i := range c.Services {
		if c.Services[i].NFS == nil {
			continue
		}
		all, keys := c.Services[i].NFS.All()
		for k, e := range all {
			if mounted, err := nfs.IsMountpoint(e.Path); e.RequireMountpoint && err == nil && !mounted {
				key := fmt.Sprintf("services[%d].%spath", i, keys[k])
				lines = append(lines, (&config.Error{Origin: c.Origins.Of(key), Key: key, Msg: e.Path + " is not a mount point; clients wait until its file system is mounted"}).Error())
			}
		}
	}
	return lines
}

// readExport makes sure that a directory exists and can be read.
func readExport(path string) error {
	d, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist; make the directory, or mount the file system that it is on", path)
	}
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if _, err := d.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// noAnswerError means that a file system hangs.
type noAnswerError struct{ path string }

func (e *noAnswerError) Error() string { return "the file system of " + e.path + " does not answer" }

// until returns what look returns, or a *noAnswerError if ctx ends before: look waits for the file system of path.
func until[T any](ctx context.Context, path string, look func() (T, error)) (v T, err error) {
	type result struct {
		v   T
		err error
	}
	looked := make(chan result, 1)
	go func() {
		v, err := look()
		looked <- result{v, err}
	}()
	select {
	case r := <-looked:
		return r.v, r.err
	case <-ctx.Done():
		return v, &noAnswerError{path}
	}
}

// answers waits until the file systems of a service's exports answer, or ctx ends. n is nil for a service
// without exports.
func (s *services) answers(ctx context.Context, n *spec.NFS) error {
	if n == nil {
		return nil
	}
	wait := func(path string, look func()) error {
		select {
		case <-s.ask(path, look):
			return nil
		case <-ctx.Done():
			return &noAnswerError{path}
		}
	}
	for _, path := range paths(n) {
		if err := wait(path, func() { _ = readExport(path) }); err != nil { // Open finds the errors of readExport
			return err
		}
	}
	return wait(strings.Join(paths(n), " or "), func() {}) // if an Open of all hangs
}

// paths returns the directories of a service's exports.
func paths(n *spec.NFS) (out []string) {
	all, _ := n.All()
	for i := range all {
		out = append(out, all[i].Path)
	}
	return out
}

// ask looks at a directory in a goroutine, and returns a channel that is closed afterwards. While a file system
// hangs, a path has one such goroutine, however often ask is called.
func (s *services) ask(path string, look func()) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == nil {
		s.asked = make(map[string]chan struct{})
	}
	answered := s.asked[path]
	if answered == nil {
		answered = make(chan struct{})
		s.asked[path] = answered
		go func() {
			look()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.asked, path)
			close(answered)
		}()
	}
	return answered
}

func (s *services) openNFS(sv *service) error {
	n := sv.spec.NFS
	var missing error
	readExports(n, readExport, func(_ string, err error) { missing = errors.Join(missing, err) })
	if missing != nil {
		return missing
	}
	c := nfs.Config{AsyncMetadata: n.AsyncMetadata, StateDir: s.state(sv.spec.Name), Replies: sv.replies, Mounts: sv.mounts, Logger: sv.log}
	var err error
	if c.Export, err = export(&n.Export); err != nil {
		return err
	}
	for i := range n.Exports {
		e, err := export(&n.Exports[i])
		if err != nil {
			return err
		}
		c.Exports = append(c.Exports, e)
	}
	if sv.nfs, err = nfs.New(c); err != nil {
		return err
	}
	sv.Handler = sv.nfs
	return nil
}

// export returns an export as the server takes it.
func export(e *spec.Export) (out nfs.Export, err error) {
	out = nfs.Export{Path: e.Path, RequireMountpoint: e.RequireMountpoint}
	out.Options, err = exportOptions(e.ReadOnly, e.Squash, e.AnonUID, e.AnonGID)
	for i := range e.Clients {
		c := e.Clients[i].Of(e)
		options, bad := exportOptions(c.ReadOnly, c.Squash, c.AnonUID, c.AnonGID)
		out.Clients, err = append(out.Clients, nfs.Client{Networks: c.Networks, Options: options}), errors.Join(err, bad)
	}
	return out, err
}

func exportOptions(readOnly bool, squash string, uid, gid int) (nfs.Options, error) {
	s, err := nfs.ParseSquash(squash)
	return nfs.Options{ReadOnly: readOnly, Squash: s, AnonUID: uint32(uid), AnonGID: uint32(gid)}, err
}

// exportReasons are the reasons of conditions for what nfs.Server.Check finds.
var exportReasons = map[nfs.ExportState]*conditions.Reason{
	nfs.ExportServed:     conditions.ExportServed,
	nfs.ExportMissing:    conditions.ExportMissing,
	nfs.ExportNotMounted: conditions.ExportNotMounted,
	nfs.ExportReplaced:   conditions.ExportReplaced,
	nfs.ExportUnusable:   conditions.ExportUnusable,
}

// exportChecks returns the checks of a service's exports. The export of the service itself
// has its name, the others have their paths too.
func exportChecks(sv *service, server *nfs.Server) (out []conditions.Check) {
	all, keys := sv.spec.NFS.All()
	for i := range all {
		name, path, write := sv.spec.Name, all[i].Path, !all[i].ReadOnly
		if keys[i] != "nfs." {
			name += ":" + path
		}
		out = append(out, conditions.Check{
			Kind: conditions.Export, Name: name, Of: sv, Every: filesEvery, BackOff: true, Timeout: filesTimeout,
			Before: conditions.ExportUnchecked, Overdue: conditions.ExportNoAnswer,
			Look: func(context.Context) (*conditions.Reason, string) {
				state, message := server.Check(i)
				if state == nfs.ExportServed && write {
					return conditions.ExportDirectory(path)
				}
				return exportReasons[state], message
			},
		})
	}
	return out
}

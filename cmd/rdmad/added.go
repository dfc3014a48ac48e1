package main

import (
	"fmt"
	"log/slog"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/statefile"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// An import changes two files: settings.db and listeners.json. settings.db is replaced first,
// with what listeners.json is to have beside the settings, so that there is no moment with one
// half of an import. Then listeners.json is replaced, and settings.db no longer has its
// contents. The number of imports says which of the two is newer, if rdmad ended in between.

// added returns what operators added and changed, even if an import is in settings.db alone.
func (s *state) added() (spec.All, error) {
	all, err := manager.NewFile(s.listeners()).Load()
	if err != nil {
		return all, err
	}
	if c, err := statefile.Read(s.settings()); err == nil && c.Elements != nil { // opening the settings reports an error
		return newer(all, c.Elements)
	}
	return all, nil
}

// newer returns all, or what an import stored, if that is newer.
func newer(all spec.All, imported []byte) (spec.All, error) {
	next, err := manager.Decode(imported)
	if err != nil {
		return all, fmt.Errorf("services and listeners that were imported: %w", err)
	}
	if next.Imports <= all.Imports {
		return all, nil
	}
	return next, nil
}

// addedStore is listeners.json, with what an import stored in settings.db.
type addedStore struct {
	*manager.File
	control *controlplane.Controlplane
	log     *slog.Logger
}

// Load implements manager.Store. It finishes an import during which rdmad ended.
func (s *addedStore) Load() (spec.All, error) {
	all, err := s.File.Load()
	imported := s.control.Settings.Elements()
	if err != nil || imported == nil {
		return all, err
	}
	if all, err = newer(all, imported); err != nil {
		return all, err
	}
	if err := s.Save(all); err != nil {
		s.log.Warn("an import stays in settings.db for now", "error", err)
	}
	return all, nil
}

// Save implements manager.Store.
func (s *addedStore) Save(all spec.All) error {
	if err := s.File.Save(all); err != nil {
		return err
	}
	if err := s.control.Settings.ElementsDone(); err != nil {
		s.log.Warn("settings.db keeps a copy of an import for now", "error", err)
	}
	return nil
}

package config

import (
	"errors"

	model "github.com/rdmad/rdmad/controlplane/settings"
)

// Layer is what the file says of the live settings, as the control plane
// takes it.
func (c *Config) Layer() model.FileLayer {
	f := model.FileLayer{Name: c.File, Values: c.Settings.values()}
	for _, k := range f.Values.Keys().Keys() {
		f.Lines[k] = c.SettingLines[k.String()]
	}
	return f
}

// Blame is err, or the line of the file that does not go together with what
// is set elsewhere when that is what err says.
func (c *Config) Blame(err error) error {
	var invalid *model.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Violations) == 0 {
		return err
	}
	key, text := invalid.Violations[0].Field, invalid.Violations[0].Text
	e := &Error{Origin: Origin{File: c.File}, Msg: text}
	if at := c.Origins.Of("settings." + key); at != (Origin{}) {
		e.Origin = at

		e.Key = "settings." + key
	} else {
		e.Msg = key + ": " + text
	}
	return e
}

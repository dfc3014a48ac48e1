package config

import (
	"errors"

	live "github.com/rdmad/rdmad/controlplane/settings"
)

// Layer is what the file says of the live settings, as the control plane
// takes it.
func (c *Config) Layer() live.FileLayer {
	all, given := c.Settings.Initial()
	values := live.FromSettings(&all)
	f := live.FileLayer{Name: c.File}
	for _, name := range given {
		// Every given name is one of a key: TestLayer.
		if k, ok := live.ParseKey(name); ok {
			value, _ := values.Get(k)
			f.Values.Set(k, value)
			f.Lines[k] = c.SettingLines[name]
		}
	}
	return f
}

// Blame is err, or the line of the file that does not go together with what
// is set elsewhere when that is what err says.
func (c *Config) Blame(err error) error {
	var invalid *live.InvalidError
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

package config

import live "github.com/rdmad/rdmad/controlplane/settings"

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

// SettingError blames a live setting that does not go together with what is
// set elsewhere, at its line.
func (c *Config) SettingError(key, msg string) *Error {
	e := &Error{File: c.File, Line: c.SettingLines[key], Msg: msg}
	if e.Line > 0 {
		e.Key = "settings." + key
	} else {
		e.Msg = key + ": " + msg
	}
	return e
}

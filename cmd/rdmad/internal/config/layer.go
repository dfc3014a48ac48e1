package config

import (
	"errors"

	"github.com/rdmad/rdmad/controlplane/configfile"
	model "github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Layer returns the live settings of the file, as the control plane takes them.
func (c *Config) Layer() model.FileLayer {
	f := model.FileLayer{Name: c.File, Values: c.Settings.Values()}
	f.Lines = c.lines(configfile.SettingsKey, &f.Values)
	for scope, v := range c.Scopes {
		if v.Keys() == 0 {
			continue
		}
		if f.Scopes == nil {
			f.Scopes = make(map[model.Scope]model.FileValues)
		}
		f.Scopes[scope] = model.FileValues{Values: v, Lines: c.lines(scopeKey(scope.String()), &v)}
	}
	return f
}

// lines returns the lines of the file that set values under a key; 0 for other values.
func (c *Config) lines(key string, v *live.Values) (lines live.ByKey[int]) {
	for _, k := range v.Keys().Keys() {
		lines[k] = c.Origins.Of(key + "." + k.String()).Line
	}
	return lines
}

// scopeKey returns the key of a scope's settings. For the global scope it is "settings".
func scopeKey(scope string) string {
	if scope == "" || scope == (model.Scope{}).String() {
		return configfile.SettingsKey
	}
	return configfile.ScopesKey + "." + scope
}

// SettingOrigin returns the origin of a live setting that the configuration gives for a scope.
func (c *Config) SettingOrigin(scope model.Scope, k model.Key) Origin {
	return c.Origins.Of(scopeKey(scope.String()) + "." + k.String())
}

// Blame returns err. If err means that lines of the file conflict with settings made
// elsewhere, Blame returns these lines instead.
func (c *Config) Blame(err error) error {
	if all := c.blame(err); all != nil {
		return all
	}
	return err
}

func (c *Config) blame(err error) (all configfile.Errors) {
	var invalid *model.InvalidError
	if !errors.As(err, &invalid) {
		return nil
	}
	for _, v := range invalid.Violations {
		key := scopeKey(v.Scope) + "." + v.Field
		if at := c.Origins.Of(key); at != (Origin{}) {
			all = append(all, &Error{Origin: at, Key: key, Msg: v.Text})
		} else {
			all = append(all, &Error{Origin: Origin{File: c.File}, Msg: v.Field + ": " + v.Text})
		}
	}
	return all
}

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// Options are what the loader can't know by itself.
type Options struct {
	// Providers that this build has.
	Providers []string
	// Absent are providers that it lacks, with how to get them.
	Absent map[string]string
	// Export replaces the path of the file's nfs service, which must then be
	// the only one; "" leaves it.
	Export string
}

// Load reads and checks a file. Its errors are *Error, but for a file that
// can't be read.
func Load(file string, o Options) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := Parse(file, text, o)
	if err != nil {
		return nil, err
	}
	c.Text = text
	return c, nil
}

// Parse checks the text of a file.
func Parse(file string, text []byte, o Options) (*Config, error) {
	root, err := parseYAML(file, text)
	if err != nil {
		return nil, err
	}
	d := &document{file: file, lines: map[string]int{}}
	if err := d.check(root); err != nil {
		return nil, err
	}
	c, err := d.decode(root)
	if err != nil {
		return nil, err
	}
	c.File = file
	c.fill()
	if err := c.setExport(o.Export); err != nil {
		return nil, err
	}
	if err := c.validate(d, o); err != nil {
		return nil, err
	}
	c.SettingLines = d.settingLines(&c.Settings)
	return c, nil
}

// settingLines are the lines of the live settings that the file gives.
func (d *document) settingLines(s *Settings) map[string]int {
	lines := make(map[string]int)
	_, given := s.Initial()
	for _, name := range given {
		lines[name] = d.lines["settings."+name]
	}
	return lines
}

// parseYAML gives the mapping at the top of the only document; nil when the
// file holds nothing.
func parseYAML(file string, text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(file, err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, &Error{File: file, Line: more.Line, Msg: "a second YAML document; one file holds one configuration"}
	} else if !errors.Is(err, io.EOF) {
		return nil, syntaxError(file, err)
	}
	return doc.Content[0], nil
}

// syntaxError takes the line out of the text of a parser's error, which
// reads "yaml: line 3: what is wrong".
func syntaxError(file string, err error) *Error {
	msg, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "yaml: "), "\n")
	e := &Error{File: file, Msg: "not YAML: " + msg}
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if num, what, ok := strings.Cut(rest, ": "); ok {
			if line, err := strconv.Atoi(num); err == nil {
				e.Line, e.Msg = line, "not YAML: "+what
			}
		}
	}
	return e
}

// decode turns the checked nodes into a Config.
func (d *document) decode(root *yaml.Node) (*Config, error) {
	values := map[string]any{}
	if root != nil {
		if err := root.Decode(&values); err != nil {
			return nil, syntaxError(d.file, err)
		}
	}
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	v.SetDefault("control::listen", DefaultControl)
	v.SetDefault("metrics::listen", DefaultMetrics)
	v.SetDefault("state::path", DefaultState)
	if err := v.MergeConfigMap(values); err != nil {
		return nil, &Error{File: d.file, Msg: err.Error()}
	}
	c := new(Config)
	err := v.UnmarshalExact(c, func(o *mapstructure.DecoderConfig) {
		o.WeaklyTypedInput = false
		o.DecodeHook = nil
	})
	if err != nil {
		// The nodes were checked against the same types: a gap between the
		// two checks, told as well as it can be.
		msg, _, _ := strings.Cut(err.Error(), "\n")
		return nil, &Error{File: d.file, Msg: msg}
	}
	return c, nil
}

// fill gives a file without services and listeners those of the default.
func (c *Config) fill() {
	if len(c.Services) == 0 && len(c.Listeners) == 0 && len(c.Connectors) == 0 {
		def := Default("")
		c.Listeners, c.Services = def.Listeners, def.Services
	}
}

// setExport puts the command line's directory in place of the file's.
func (c *Config) setExport(dir string) error {
	if dir == "" {
		return nil
	}
	var nfs []*NFS
	for _, s := range c.Services {
		if s.NFS != nil {
			nfs = append(nfs, s.NFS)
		}
	}
	if len(nfs) != 1 {
		return errors.New("--export: " + fmt.Sprintf("%s has %d nfs services, not one; set their path there", c.File, len(nfs)))
	}
	nfs[0].Path = dir
	return nil
}

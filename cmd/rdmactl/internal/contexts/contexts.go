// Package contexts keeps named rdmads in a file of the user: the address and the TLS
// files of each, and the name of the current one.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Context is a named rdmad.
type Context struct {
	Name string `json:"name" yaml:"name"`
	Addr string `json:"addr" yaml:"addr"` // host:port or unix:///path
	TLS  TLS    `json:"tls" yaml:"tls,omitempty"`
}

// TLS has the files for a control plane with mutual TLS. Relative names are relative to the
// directory of the contexts' file.
type TLS struct {
	Cert       string `json:"cert" yaml:"cert,omitempty"`
	Key        string `json:"key" yaml:"key,omitempty"`
	CA         string `json:"ca" yaml:"ca,omitempty"`
	ServerName string `json:"server_name" yaml:"server_name,omitempty"`
}

// File is the content of the file.
type File struct {
	Current  string    `json:"current" yaml:"current,omitempty"`
	Contexts []Context `json:"contexts" yaml:"contexts"`
}

// mostBytes bounds the file.
const mostBytes = 1 << 20

// Path returns the file's name: RDMACTL_CONFIG, or rdmactl/config.yaml in the user's
// configuration directory.
func Path() (string, error) {
	if name := os.Getenv("RDMACTL_CONFIG"); name != "" {
		return name, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("contexts: %w: set RDMACTL_CONFIG", err)
	}
	return filepath.Join(dir, "rdmactl", "config.yaml"), nil
}

// Load reads a file. A file that does not exist has no contexts.
func Load(name string) (*File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Contexts: []Context{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	if len(text) > mostBytes {
		return nil, fmt.Errorf("contexts: %s is larger than %d bytes", name, mostBytes)
	}
	file, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("contexts: %s: %w", name, err)
	}
	return file, nil
}

func parse(text []byte) (*File, error) {
	f := &File{Contexts: []Context{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	seen := map[string]bool{}
	for i, c := range f.Contexts {
		switch {
		case !ValidName(c.Name):
			return nil, fmt.Errorf("context %d: %q is no name: use letters, digits, dots, dashes and underscores", i+1, c.Name)
		case seen[c.Name]:
			return nil, fmt.Errorf("context %s is in it twice", c.Name)
		case c.Addr == "":
			return nil, fmt.Errorf("context %s has no addr", c.Name)
		}
		seen[c.Name] = true
	}
	return f, nil
}

var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ValidName reports whether a context may have this name.
func ValidName(s string) bool { return name.MatchString(s) }

// Get returns a context.
func (f *File) Get(name string) (Context, bool) {
	if i := f.index(name); i >= 0 {
		return f.Contexts[i], true
	}
	return Context{}, false
}

// Put adds a context, or replaces the one of its name. The first one becomes the
// current one.
func (f *File) Put(c Context) {
	if i := f.index(c.Name); i >= 0 {
		f.Contexts[i] = c
		return
	}
	f.Contexts = append(f.Contexts, c)
	if len(f.Contexts) == 1 {
		f.Current = c.Name
	}
}

// Remove removes a context, and reports whether there was one.
func (f *File) Remove(name string) bool {
	i := f.index(name)
	if i < 0 {
		return false
	}
	f.Contexts = slices.Delete(f.Contexts, i, i+1)
	if f.Current == name {
		f.Current = ""
	}
	return true
}

// Names returns the names of all contexts.
func (f *File) Names() []string {
	names := make([]string, len(f.Contexts))
	for i, c := range f.Contexts {
		names[i] = c.Name
	}
	return names
}

func (f *File) index(name string) int {
	return slices.IndexFunc(f.Contexts, func(c Context) bool { return c.Name == name })
}

// Absolute returns the TLS files with absolute names. Relative ones are relative to dir.
func (t TLS) Absolute(dir string) TLS {
	for _, file := range []*string{&t.Cert, &t.Key, &t.CA} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(dir, *file)
		}
	}
	return t
}

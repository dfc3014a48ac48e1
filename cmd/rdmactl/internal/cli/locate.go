package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/contexts"
)

// whereFlags say which rdmad to talk to.
type whereFlags struct {
	addr    string
	context string // one name, or several with commas
	tls     tlsFlags
}

func (w *whereFlags) flags(a *app, root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&w.addr, "addr", "", "control plane: host:port or unix:///path (default: the packaged rdmad's "+packageSocket+", else "+defaultAddr+")")
	f.StringVar(&w.context, "context", "", "`NAME` of a context (rdmactl config), or several with commas")
	w.tls.flags(root)
	must(root.RegisterFlagCompletionFunc("context", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return commaList(a.contextNames(), typed), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}))
}

// check looks at the flags alone.
func (w *whereFlags) check() error {
	if w.addr != "" && w.context != "" {
		return usagef("--addr and --context exclude each other")
	}
	if w.addr == "" {
		return nil
	}
	return checkAddr("--addr", w.addr, &w.tls)
}

// checkAddr looks at an address, and at the TLS flags that belong to it.
func checkAddr(what, addr string, tls *tlsFlags) error {
	if strings.HasPrefix(addr, "unix:///") {
		return tls.none()
	}
	_, _, err := net.SplitHostPort(addr)
	if err != nil || strings.HasPrefix(addr, "unix://") { // a relative path, which would be a host's name
		return usagef("%s %q is neither host:port nor unix:///path", what, addr)
	}
	return tls.check()
}

// names are the contexts that the flag or the environment names.
func (w *whereFlags) names() []string {
	list := w.context
	if list == "" && w.addr == "" && os.Getenv("RDMACTL_ADDR") == "" {
		list = os.Getenv("RDMACTL_CONTEXT")
	}
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// location is where a control plane is, and why rdmactl looks there.
type location struct {
	addr, from string
	tls        tlsFlags
	assumed    bool // nobody named it
}

// locate chooses the rdmad to talk to.
func (a *app) locate() (location, error) {
	l := location{tls: a.where.tls}
	var err error
	switch names := a.where.names(); {
	case a.where.addr != "":
		l.addr, l.from = a.where.addr, "--addr"
	case len(names) > 0:
		l, err = a.contextLocation(names[0])
	case os.Getenv("RDMACTL_ADDR") != "":
		l.addr, l.from = os.Getenv("RDMACTL_ADDR"), "RDMACTL_ADDR"
	default:
		l, err = a.defaultLocation()
	}
	if err != nil {
		return l, err
	}
	return l, checkAddr(l.from, l.addr, &l.tls)
}

// defaultLocation is the current context, else the packaged rdmad, else one without a
// configuration. TLS files are for no Unix socket.
func (a *app) defaultLocation() (location, error) {
	if file, err := loadContexts(); err != nil {
		return location{}, err
	} else if file.Current != "" {
		return a.contextLocation(file.Current)
	}
	l := location{addr: defaultAddr, from: "default", tls: a.where.tls, assumed: true}
	if info, err := os.Stat(a.socket); err == nil && info.Mode().Type() == os.ModeSocket && l.tls.Cert == "" {
		l.addr, l.from = "unix://"+a.socket, "packaged socket"
	}
	return l, nil
}

// contextLocation is a context's rdmad. Its TLS files count, not those of the
// environment; flags replace single ones.
func (a *app) contextLocation(name string) (location, error) {
	c, err := getContext(name)
	if err != nil {
		return location{}, err
	}
	l := location{addr: c.Addr, from: "context " + name, tls: tlsFlags{c.TLS}}
	l.tls.replace(a.global, &a.where.tls)
	return l, nil
}

// getContext finds a context in the user's file.
func getContext(name string) (contexts.Context, error) {
	file, err := loadContexts()
	if err != nil {
		return contexts.Context{}, err
	}
	c, ok := file.Get(name)
	if _, err := contexts.Path(); !ok && err != nil {
		return c, err // there is no file
	}
	if !ok {
		return c, noSuchContext(name)
	}
	return c, nil
}

// loadContexts reads the user's file. A user without a home has none.
func loadContexts() (*contexts.File, error) {
	path, err := contexts.Path()
	if err != nil {
		return new(contexts.File), nil //nolint:nilerr // such as a service
	}
	file, err := contexts.Load(path)
	if err != nil {
		return nil, err
	}
	for i := range file.Contexts {
		file.Contexts[i].TLS = file.Contexts[i].TLS.Absolute(filepath.Dir(path))
	}
	return file, nil
}

// contextNames are those for completion.
func (a *app) contextNames() []string {
	file, err := loadContexts()
	if err != nil {
		cobra.CompDebugln(a.explain(err), false)
		return nil
	}
	return file.Names()
}

// use makes a location the one that requests and errors are for.
func (a *app) use(l location) { a.addr, a.tls = l.addr, l.tls }

// checkNames looks at the names of several contexts.
func checkNames(names []string) error {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return usagef("--context has %s twice", name)
		}
		if _, err := getContext(name); err != nil {
			return fmt.Errorf("--context: %w", err)
		}
	}
	return nil
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// targets returns the fuzz targets in a tree as FOLDER/FUNCTION, sorted.
func targets(root string) (names []string, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				names = append(names, path.Join(filepath.ToSlash(rel), fn.Name.Name))
			}
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// turns gives each target one slice before any target gets a second one.
// Targets with the fewest executions come first.
type turns struct {
	names []string
	ran   map[string]int
}

func newTurns(names []string) *turns {
	return &turns{names: slices.Clone(names), ran: make(map[string]int)}
}

// next returns the next target, or "" if none is left.
func (q *turns) next(t *table) (name string) {
	for _, n := range q.names {
		if name == "" || q.ran[n] < q.ran[name] || (q.ran[n] == q.ran[name] && t.rows[n].executions < t.rows[name].executions) {
			name = n
		}
	}
	q.ran[name]++
	return name
}

// drop removes a target.
func (q *turns) drop(name string) {
	q.names = slices.DeleteFunc(q.names, func(n string) bool { return n == name })
}

package conn

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// rolesOf says which role a type with methods belongs to.
var rolesOf = map[string]string{
	"Requester": "requester", "Outgoing": "requester", "pending": "requester", "reading": "requester", "window": "requester",
	"Responder": "responder", "Call": "responder", "call": "responder", "configuration": "responder",
}

// TestFilesOfRoles: a method of a role is in a file named after the role, here and in
// package transport, or in one about the reverse direction.
func TestFilesOfRoles(t *testing.T) {
	methods := 0
	for _, dir := range []string{".", "../transport"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		must(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			must(t, err)
			base := filepath.Base(name)
			for _, d := range f.Decls {
				role := rolesOf[receiverOf(d)]
				if role == "" {
					continue
				}
				if methods++; !strings.HasPrefix(base, role) && !strings.HasPrefix(base, "reverse") {
					t.Errorf("%s has a method of the %s: %s", name, role, d.(*ast.FuncDecl).Name)
				}
			}
		}
	}
	if methods < 100 {
		t.Errorf("looked at %d methods only", methods)
	}
}

// receiverOf is the type that a declaration is a method of, or "".
func receiverOf(d ast.Decl) string {
	fn, is := d.(*ast.FuncDecl)
	if !is || fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if p, is := of.(*ast.StarExpr); is {
		of = p.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

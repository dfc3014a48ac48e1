package rdmad_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// levels are the methods of a logger, with the index of the message among the
// arguments.
var levels = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2, "LogAttrs": 2,
}

// notPeer are other keys for the peer. dataplane/loglimit would not see the peer
// under them.
var notPeer = []string{"client", "remote", "remote_addr", "peer_addr", "peer_address"}

// offences lists the faults of a file's log lines. Messages must be constant texts,
// and the attribute that names the peer is "peer": dataplane/loglimit counts by
// both. No line has a key twice: JSON readers keep one of the values.
func offences(set *token.FileSet, f *ast.File) (out []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(method.X) {
			return true
		}
		at, ok := levels[method.Sel.Name]
		if !ok || len(call.Args) <= at {
			return true
		}
		if !isConstant(call.Args[at]) {
			out = append(out, set.Position(call.Pos()).String()+": the message is no constant text")
		}
		keys := make(map[string]bool)
		for i, arg := range call.Args[at+1:] {
			lit, ok := arg.(*ast.BasicLit)
			if i%2 == 1 || !ok || lit.Kind != token.STRING { // a value
				continue
			}
			key, _ := strconv.Unquote(lit.Value)
			if slices.Contains(notPeer, key) {
				out = append(out, set.Position(arg.Pos()).String()+": the peer's key is \"peer\", not \""+key+"\"")
			}
			if keys[key] {
				out = append(out, set.Position(arg.Pos()).String()+": the key \""+key+"\" is there twice")
			}
			keys[key] = true
		}
		return true
	})
	return out
}

// isLogger recognizes loggers by their names: log, l.log, cfg.Logger, slog.
func isLogger(e ast.Expr) bool {
	var name string
	switch x := e.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	case *ast.CallExpr: // log.With(…)
		if s, ok := x.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "With") {
			return isLogger(s.X)
		}
	}
	return slices.Contains([]string{"log", "logger", "Logger", "slog"}, name)
}

func isConstant(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return x.Kind == token.STRING
	case *ast.BinaryExpr:
		return isConstant(x.X) && isConstant(x.Y)
	}
	return false
}

func TestLoggedLines(t *testing.T) {
	looked := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin" || name == "interop") {
			return fs.SkipDir
		}
		// The middleware's messages are constants of its own.
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "controlplane/grpcapi/chain.go" {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		looked++
		for _, o := range offences(set, f) {
			t.Error(o)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 100 {
		t.Fatalf("looked at %d files only: is the test run at the top of the tree?", looked)
	}
}

// TestLoggedLinesRuleBites plants faults that the rule must find.
func TestLoggedLinesRuleBites(t *testing.T) {
	const src = `package p
func f() {
	log.Warn("fine: " + "this", "peer", p)
	x.cfg.Logger.Log(ctx, level, "fine", "peer", p)
	http.Error(w, err.Error(), 500)
	log.Warn("bad " + what)
	s.log.With("a", b).Error("bad", "client", c)
	slog.LogAttrs(ctx, level, fmt.Sprint("bad"))
	l.cfg.Logger.InfoContext(ctx, text)
	log.Warn("bad", "peer", p, "peer", c)
}`
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, o := range offences(set, f) {
		lines = append(lines, strings.Split(o, ":")[1])
	}
	if !slices.Equal(lines, []string{"6", "7", "8", "9", "10"}) {
		t.Errorf("offences in lines %v", lines)
	}
}

package configfile

import (
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// levels is the depth of nodes.
func levels(n *yaml.Node) (deepest int) {
	for _, inner := range n.Content {
		deepest = max(deepest, levels(inner))
	}
	if n.Kind == yaml.ScalarNode {
		return 0
	}
	return deepest + 1
}

// TestDepth: a file that nests too deep is refused in any format, in TOML before the parser has it.
func TestDepth(t *testing.T) {
	nested := func(open, inner, end string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	const many, most = 100_000, maxDepth
	for _, text := range []string{
		"a = " + nested("[", "", "]", many),
		"a = " + nested("[", "", "]", most+1),
		"a = " + nested("[", "", "", many),
		"a = " + nested("{a=", "1", "}", many),
		"a" + strings.Repeat(".a", many) + " = 1",
		"[a" + strings.Repeat(".a", many) + "]",
		"a = " + nested("{a.a.a.a=", "1", "}", most/4+1),
		"a = [" + strings.Repeat("[[],[]],", 3) + nested("[", "", "]", many) + "]",
		`s = "\\\""` + "\na = " + nested("[", "", "]", many),
		`s = '\'` + "\na = " + nested("[", "", "]", many),
		"s = '''''x'''''\na = " + nested("[", "", "]", many),
		`s = """""x\"""""""` + "\na = " + nested("[", "", "]", many),
		"s = \"\" # \"'''\na = " + nested("[", "", "]", many),
		"\"\" = ''\n'[' = \"\"\na = " + nested("[", "", "]", many),
	} {
		line := 1 + strings.Count(text, "\n")
		want := "f.toml:" + string(rune('0'+line)) + ": more than 64 levels of lists, mappings and dotted keys"
		if _, err := Parse("f.toml", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{
		"a = " + nested("[", "", "]", most),
		"a = " + nested("{a=", "1", "}", most-1),
		`a = "` + strings.Repeat("[{.", many) + `"`,
		"a = '''\n" + strings.Repeat("[{.\n", many) + "'''",
		`a = """` + strings.Repeat("[{.\n", many) + `"""`,
		"# " + strings.Repeat("[{.", many),
		"a.b.c = [1.5, 2.5, [3.5]]\n[[d.e.f]]\n",
		"a = [" + strings.Repeat("1.5, ", many) + "]",
	} {
		root, err := Parse("f.toml", []byte(text))
		if err != nil {
			t.Errorf("%.40q: %v", text, err)
		} else if got := levels(root); got > maxDepth+1 {
			t.Errorf("%.40q: %d levels", text, got)
		}
	}
	for _, name := range []string{"f.yaml", "f.json"} {
		_, err := Parse(name, []byte(nested(`{"a":[`, "1", "]}", many)))
		if err == nil || !strings.Contains(err.Error(), "exceeded max depth") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSize: a text of any format has a bound.
func TestSize(t *testing.T) {
	for _, name := range []string{"f.toml", "f.yaml", "f.json"} {
		text := append([]byte(`{}`), make([]byte, MaxSize-1)...)
		if _, err := Parse(name, text); err == nil || err.Error() != name+": 4194305 bytes; a file has 4194304 at most" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLinesOfTOML: each key has its line.
func TestLinesOfTOML(t *testing.T) {
	root, err := Parse("f.toml", []byte("\na = 1\nb = '''\n\n'''\n[c]\nd = [\n 1,\n 2]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i := 0; i < len(root.Content); i += 2 {
		got = append(got, root.Content[i].Line)
	}
	c := root.Content[5]
	got = append(got, c.Content[0].Line, c.Content[1].Content[1].Line)
	for i, want := range []int{2, 3, 6, 7, 9} {
		if got[i] != want {
			t.Errorf("lines %v", got)
		}
	}
}

// tomlScalars are values without levels.
var tomlScalars = []string{
	"15", "1979-05-27", `""`, `"\"["`, `"\\"`, `"[{.#'"`, `'["\'`, "''", `"""["\""""`, "''''['''''", "'''\n[.'''", `"""\"""["""`,
}

// tomlValue draws a value, and its levels.
func tomlValue(t *rapid.T, room int) (text string, depth int) {
	kind := rapid.SampledFrom([]string{"scalar", "list", "mapping"}).Draw(t, "kind")
	if room == 0 || kind == "scalar" {
		return rapid.SampledFrom(tomlScalars).Draw(t, "scalar"), 0
	}
	var parts []string
	for i := range rapid.IntRange(0, 3).Draw(t, "items") {
		part, n := tomlValue(t, room-1)
		if kind == "mapping" {
			key := rapid.SampledFrom([]string{"a", "a.b", `"[".'{'`, "a . b. c", `"a#b"`}).Draw(t, "key")
			n += 1 + strings.Count(key, ".")
			part = "k" + strconv.Itoa(i) + "." + key + " = " + part
		}
		parts, depth = append(parts, part), max(depth, n)
	}
	if kind == "list" {
		return "[ # [\n" + strings.Join(parts, ",\n") + "]", depth + 1
	}
	return "{" + strings.Join(parts, ", ") + "}", depth + 1
}

// TestDepthIsThat: the levels found are those that the parser finds.
func TestDepthIsThat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, depth := tomlValue(t, 5)
		text := []byte("first = " + value + "\nsecond = " + value)
		root, err := parseTOML("f.toml", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if got := levels(root) - 1; got != depth {
			t.Fatalf("%d levels, want %d, in\n%s", got, depth, text)
		}
		if tooDeep(text, depth) != 0 || depth > 0 && tooDeep(text, depth-1) == 0 {
			t.Fatalf("not %d levels in\n%s", depth, text)
		}
	})
}

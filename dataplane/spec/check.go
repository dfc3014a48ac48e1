package spec

import (
	"fmt"
	"iter"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error is a field of a specification that can't be taken.
type Error struct {
	Field string // such as limits.idle
	Text  string // what is wrong, and what would be right
}

func (e *Error) Error() string { return e.Field + ": " + e.Text }

// Problem says why a value that was given can't be taken; "" for nothing.
func (f *Field) Problem(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if all := f.Values(); all != nil && !slices.Contains(all, v.String()) {
		return fmt.Sprintf("%q is none of %s", v.String(), strings.Join(all, ", "))
	}
	if check := texts[f.tag.Get("is")]; check != nil {
		return check(v.String())
	}
	return f.outOfRange(v)
}

func (f *Field) outOfRange(v reflect.Value) string {
	low, high := f.Range()
	if low == "" {
		return ""
	}
	from, err1 := Parse(v.Type(), low)
	to, err2 := Parse(v.Type(), high)
	if err1 != nil || err2 != nil {
		panic("spec: range of " + f.Path)
	}
	if n := v.Int(); n < from.Int() || n > to.Int() {
		return fmt.Sprintf("%s is out of range %s..%s", Text(v), low, high)
	}
	if v.Type() == reflect.TypeFor[time.Duration]() && from.Int()%int64(time.Second) == 0 && v.Int()%int64(time.Second) != 0 {
		return Text(v) + " is not a time in seconds, minutes or hours such as 10m"
	}
	return ""
}

// texts are the checks of texts, by what the tag is says.
var texts = map[string]func(string) string{
	"name":    NameProblem,
	"address": AddressProblem,
	"target":  targetProblem,
	"optional address": func(v string) string {
		if v == "" {
			return ""
		}
		return AddressProblem(v)
	},
}

// Problems yields the fields with what is wrong with their values; "" for
// nothing. A zero value counts as not given.
func Problems(spec any) iter.Seq2[Field, string] {
	return func(yield func(Field, string) bool) {
		root := reflect.ValueOf(spec)
		for f := range Fields(root.Type().Elem()) {
			v := f.In(root, false)
			if !v.IsValid() || f.Section() {
				continue
			}
			text := f.Missing()
			if !v.IsZero() {
				text = f.Problem(v)
			}
			if !yield(f, text) {
				return
			}
		}
	}
}

// Check says whether a specification has all that it needs, and nothing that
// is out of range. The error is an *Error.
func Check(spec any) error {
	for f, text := range Problems(spec) {
		if text != "" {
			return &Error{f.Path, text}
		}
	}
	return nil
}

// Missing says that a value has to be given; "" when it may be left out.
func (f *Field) Missing() string {
	switch f.tag.Get("is") {
	case "name":
		return "is missing"
	case "path":
		return "is missing: which directory is served?"
	case "address", "target":
		return AddressProblem("")
	}
	return ""
}

// nameSyntax is what stands unquoted in a scope, in a metric's label and in a
// path.
var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// NameProblem says what is wrong with a name; "" for nothing.
func NameProblem(name string) string {
	if !nameSyntax.MatchString(name) {
		return fmt.Sprintf("%q: letters, digits, '_', '.' and '-' make a name, 63 at most", name)
	}
	return ""
}

// AddressProblem says what is wrong with host:port, without looking anything
// up; port 0 lets the system choose. It is "" for nothing.
func AddressProblem(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil || strings.ContainsAny(host, " /\\") {
		return fmt.Sprintf("%q is not HOST:PORT", v)
	}
	if n, err := strconv.ParseUint(port, 10, 64); err != nil || n > 65535 {
		return fmt.Sprintf("port %q is not a number from 0 to 65535", port)
	}
	return ""
}

// targetProblem says what is wrong with the address of a server; "" for nothing.
func targetProblem(v string) string {
	if text := AddressProblem(v); text != "" {
		return text
	}
	if strings.HasSuffix(v, ":0") {
		return "nobody listens on port 0; NFS over RDMA is on port 20049"
	}
	return ""
}

// Filled is a specification with the defaults of the fields that are not given.
// Sections that are not given stay so.
func Filled[T any](spec T) T {
	root := reflect.ValueOf(&spec)
	for f := range Of[T]() {
		v := f.In(root, false)
		if f.Default() == "" || !v.IsValid() || !v.IsZero() {
			continue
		}
		def, err := Parse(f.Type, f.Default())
		if err != nil {
			panic("spec: default of " + f.Path)
		}
		v.Set(def)
	}
	return spec
}

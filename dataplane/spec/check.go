package spec

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Error means that a field of a specification is not valid.
type Error struct {
	Field string // such as limits.idle
	Text  string // the mistake and the correction
}

func (e *Error) Error() string { return e.Field + ": " + e.Text }

// Errors are several mistakes in a specification.
type Errors []*Error

func (e Errors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap lets errors.As find each mistake.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i := range e {
		out[i] = e[i]
	}
	return out
}

// err returns the mistakes as an error: nil, an *Error, or Errors.
func (e Errors) err() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Problem returns why a given value is not valid, or "".
func (f *Field) Problem(v reflect.Value) string {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if all := f.Values(); all != nil && !slices.Contains(all, v.String()) {
		return fmt.Sprintf("%q is not one of %s", v.String(), strings.Join(all, ", "))
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

// texts are the checks of texts, by the value of the tag is.
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

// Problems yields all mistakes in a specification: the key of a field, and what is wrong with
// it. A zero value counts as not given.
func Problems(spec any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		more := true
		report := func(key, text string) { more = more && (text == "" || yield(key, text)) }
		problems(reflect.ValueOf(spec), "", report)
		switch s := spec.(type) {
		case *Listener:
			accessProblem(&s.Access, report)
		case *Connector:
			accessProblem(&s.Access, report)
		case *Service:
			if s.NFS != nil {
				s.NFS.problems(report)
			}
		case *Limits:
			s.problems(report)
		}
	}
}

// accessProblem calls report with what is wrong with the lists of a listener or connector.
func accessProblem(a *dataplane.Access, report func(key, text string)) {
	if bad, ok := errors.AsType[*dataplane.AccessError](dataplane.CheckAccess(a)); ok {
		report(bad.List, bad.Err.Error())
	}
}

// problems calls report for each field of the struct to which root points, with the problem
// of its value or "".
func problems(root reflect.Value, prefix string, report func(key, text string)) {
	for f := range Fields(root.Type().Elem()) {
		v := f.In(root, false)
		switch {
		case !v.IsValid() || f.Section():
		case f.Items():
			for i := range v.Len() {
				problems(v.Index(i).Addr(), fmt.Sprintf("%s%s[%d].", prefix, f.Path, i), report)
			}
		case v.IsZero():
			report(prefix+f.Path, f.Missing())
		default:
			report(prefix+f.Path, f.Problem(v))
		}
	}
}

// Check returns an error if a specification lacks a required field or a value is out of range:
// an *Error, or Errors if there are several.
func Check(spec any) error {
	var all Errors
	for key, text := range Problems(spec) {
		all = append(all, &Error{key, text})
	}
	return all.err()
}

// Missing returns an error text if the value is required, or "".
func (f *Field) Missing() string {
	switch f.tag.Get("is") {
	case "name":
		return "is missing"
	case "address", "target":
		return AddressProblem("")
	}
	return ""
}

// nameSyntax is the syntax of names, which need no quoting in a scope, in a metric's label
// and in a path.
var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// NameProblem returns what is wrong with a name, or "".
func NameProblem(name string) string {
	if !nameSyntax.MatchString(name) {
		return fmt.Sprintf("%q: letters, digits, '_', '.' and '-' make a name, 63 at most", name)
	}
	return ""
}

// AddressProblem returns what is wrong with host:port, or "". It looks nothing up. Port 0
// lets the system choose.
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

// targetProblem returns what is wrong with the address of a server, or "".
func targetProblem(v string) string {
	if text := AddressProblem(v); text != "" {
		return text
	}
	if strings.HasSuffix(v, ":0") {
		return "nobody listens on port 0; NFS over RDMA is on port 20049"
	}
	return ""
}

// Filled returns a specification with defaults for the fields that are not given. Sections
// that are not given stay empty.
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

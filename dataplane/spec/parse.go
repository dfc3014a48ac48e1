package spec

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Parse parses a value of type t from text. The error says what is wrong.
func Parse(t reflect.Type, text string) (reflect.Value, error) {
	out := reflect.New(t).Elem()
	switch v := out.Addr().Interface().(type) {
	case *Size:
		n, err := ParseSize(text)
		*v = n
		return out, err
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return out, fmt.Errorf("%q is not a time such as 10s", text)
		}
		*v = d
		return out, nil
	case *netip.Prefix:
		p, err := dataplane.ParsePrefix(text)
		*v = p
		return out, err
	case encoding.TextUnmarshaler:
		return out, v.UnmarshalText([]byte(text))
	}
	switch t.Kind() {
	case reflect.Pointer:
		v, err := Parse(t.Elem(), text)
		if err == nil {
			out.Set(reflect.New(t.Elem()))
			out.Elem().Set(v)
		}
		return out, err
	case reflect.String:
		out.SetString(text)
		return out, nil
	case reflect.Bool:
		on, ok := switches[strings.ToLower(text)]
		if !ok {
			return out, fmt.Errorf("must be on or off, not %q", text)
		}
		out.SetBool(on)
		return out, nil
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return out, fmt.Errorf("must be a whole number, not %q", text)
		}
		out.SetInt(n)
		return out, nil
	case reflect.Slice:
		return parseList(t, text)
	}
	return out, fmt.Errorf("a %s has no text", t)
}

var switches = map[string]bool{"true": true, "on": true, "yes": true, "false": false, "off": false, "no": false}

func parseList(t reflect.Type, text string) (reflect.Value, error) {
	out := reflect.MakeSlice(t, 0, 1)
	if text == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		v, err := Parse(t.Elem(), strings.TrimSpace(part))
		if err != nil {
			return out, err
		}
		out = reflect.Append(out, v)
	}
	return out, nil
}

// Expectation describes the text of a type's values.
type Expectation struct {
	Name string
	// Tags are the accepted kinds of YAML values; nil means all.
	Tags []string
}

// Expected returns the expectation for the values of a type.
func Expected(t reflect.Type) Expectation {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, own := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	switch {
	case t == reflect.TypeFor[Size]():
		return Expectation{"a size in bytes such as 65536 or 64KiB", []string{"!!int", "!!str"}}
	case t == reflect.TypeFor[time.Duration]():
		return Expectation{"a time such as 10s", []string{"!!str"}}
	case t == reflect.TypeFor[netip.Prefix]():
		return Expectation{"an address or a CIDR", []string{"!!str"}}
	case own:
		return Expectation{"a text", nil}
	case t.Kind() == reflect.Bool:
		return Expectation{"on or off", nil}
	case t.Kind() == reflect.String:
		return Expectation{"a text", []string{"!!str"}}
	}
	return Expectation{"a whole number", []string{"!!int"}}
}

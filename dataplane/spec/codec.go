package spec

import (
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/go-viper/mapstructure/v2"
)

// Encode returns a specification as the maps, lists and scalars of the configuration file. It
// omits zero values, except for sections that are given.
func Encode(spec any) map[string]any {
	v := reflect.Indirect(reflect.ValueOf(spec))
	out := map[string]any{}
	encodeInto(out, v)
	return out
}

func encodeInto(out map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		key, value := v.Type().Field(i).Tag.Get("mapstructure"), v.Field(i)
		switch {
		case key == "-" || key == "":
		case key == ",squash":
			encodeInto(out, value)
		case !value.IsZero():
			out[key] = encode(value)
		}
	}
}

func encode(v reflect.Value) any {
	switch {
	case isSection(v.Type()):
		return Encode(v.Interface())
	case isStruct(v.Type()):
		return Encode(v.Interface())
	case v.Kind() == reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = encode(v.Index(i))
		}
		return list
	}
	switch x := v.Interface().(type) {
	case time.Duration, netip.Prefix, Size:
		return Text(v)
	default:
		return x
	}
}

// Decode is the inverse of Encode. It also accepts texts for all values. Unknown keys are
// errors.
func Decode(values map[string]any, to any) error {
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: to, ErrorUnused: true, DecodeHook: FromText})
	if err != nil {
		return err
	}
	return d.Decode(values)
}

// FromText is a decode hook that parses texts with Parse.
func FromText(from, to reflect.Type, value any) (any, error) {
	if from.Kind() != reflect.String || to.Kind() == reflect.String || to.Kind() == reflect.Interface {
		return value, nil
	}
	v, err := Parse(to, fmt.Sprint(value))
	if err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

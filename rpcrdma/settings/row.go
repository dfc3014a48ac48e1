package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a setting's value.
type Kind uint8

// The kinds. Every value is a uint32: a number, a flag as 0 or 1, or the index of a choice.
const (
	Number Kind = iota
	Size        // a number of bytes, which may be written with KiB, MiB or GiB
	Flag        // on or off
	Choice      // one of Choices
)

// Row describes a live setting.
type Row struct {
	// Name is dotted: GROUP.NAME, the path of the field in the API's Settings.
	Name string
	Kind Kind
	// For numbers and sizes: the unit, the smallest and largest value allowed, and, if not
	// 0, what the value must be a multiple of.
	Unit               string
	Min, Max, Multiple uint32
	Choices            []string // for a Choice, by value
	Default            uint32
	field              field // in Settings

	Summary string // what it does, in one line
	Details string // further explanation, as Markdown
	Example string // arguments for "rdmactl settings set"
	InForce string // when a change takes effect on connections that are up
	Spec    string // for an extension: the document that defines it

	// Needs are settings that must be on if this one is on.
	Needs []Key
	// AtMost are settings that this one must not exceed.
	AtMost []Key
	// Answering settings belong to the side that answers calls. On connections of a
	// connector that is the target.
	Answering bool
	// Outcome returns the effect of a change on a connection, and the reason if there is
	// one. It depends only on its arguments. nil means that a change takes effect at once.
	Outcome func(now, atConnect *Settings, peer *Peer) (Outcome, string)
}

// field accesses a setting in Settings.
type field struct {
	get func(*Settings) uint32
	set func(*Settings, uint32)
}

func number(at func(*Settings) *uint32) field {
	return field{
		func(s *Settings) uint32 { return *at(s) },
		func(s *Settings, v uint32) { *at(s) = v },
	}
}

func flag(at func(*Settings) *bool) field {
	return field{
		func(s *Settings) uint32 { return boolValue(*at(s)) },
		func(s *Settings, v uint32) { *at(s) = v != 0 },
	}
}

func choice[T ~uint8](at func(*Settings) *T) field {
	return field{
		func(s *Settings) uint32 { return uint32(*at(s)) },
		func(s *Settings, v uint32) { *at(s) = T(min(v, math.MaxUint8)) },
	}
}

// extension returns the field of a setting whose value is the index, from 1, of the
// extension that is on.
func extension(all ...Extensions) field {
	return field{
		func(s *Settings) uint32 {
			for i, e := range slices.Backward(all) {
				if s.Extensions.Has(e) {
					return uint32(i) + 1
				}
			}
			return 0
		},
		func(s *Settings, v uint32) {
			for i, e := range all {
				s.Extensions &^= e
				if v == uint32(i)+1 {
					s.Extensions |= e
				}
			}
		},
	}
}

func boolValue(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

// onOff are the texts of a flag's values.
var onOff = []string{"off", "on"}

// Texts returns the texts of a flag's or choice's values, or nil for numbers.
func (r *Row) Texts() []string {
	switch r.Kind {
	case Flag:
		return onOff
	case Choice:
		return r.Choices
	}
	return nil
}

// Allowed returns a text that describes the allowed values.
func (r *Row) Allowed() string {
	switch r.Kind {
	case Flag:
		return "on, off"
	case Choice:
		return strings.Join(r.Choices, ", ")
	}
	text := fmt.Sprintf("%d to %d %s", r.Min, r.Max, r.Unit)
	if r.Multiple != 0 {
		text += fmt.Sprintf(", a multiple of %d", r.Multiple)
	}
	return text
}

// Format returns a value as text for the command line and the file.
func (r *Row) Format(value uint32) string {
	if texts := r.Texts(); uint64(value) < uint64(len(texts)) {
		return texts[value]
	}
	return strconv.FormatUint(uint64(value), 10)
}

// Parse reads what Format returns. It also accepts a size in KiB, MiB or GiB, and YAML's
// other words for on and off. It does not check ranges beyond 32 bits. The error is an
// *InvalidError.
func (r *Row) Parse(text string) (uint32, error) {
	if texts := r.Texts(); texts != nil {
		if i := slices.Index(texts, plainSwitch(text)); i >= 0 {
			return uint32(i), nil
		}
		return 0, Invalid(r.Name, "%s", r.Wrong(text))
	}
	digits, unit := text, uint64(1)
	if r.Kind == Size {
		digits, unit = cutUnit(text)
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n*unit > math.MaxUint32 {
		return 0, Invalid(r.Name, "%s", r.Wrong(text))
	}
	return uint32(n * unit), nil
}

// plainSwitch returns on or off for a word that means the same.
func plainSwitch(text string) string {
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		return "on"
	case "false", "no", "off":
		return "off"
	}
	return text
}

// Wrong returns what an invalid text should be.
func (r *Row) Wrong(text string) string {
	if r.Texts() != nil {
		return fmt.Sprintf("must be %s, not %q", r.alternatives(), text)
	}
	return fmt.Sprintf("must be a whole number of %s, not %q", r.Unit, text)
}

// cutUnit takes a size's unit off.
func cutUnit(text string) (digits string, unit uint64) {
	for i, u := range []string{"KiB", "MiB", "GiB"} {
		if digits, ok := strings.CutSuffix(text, u); ok {
			return strings.TrimRight(digits, " "), 1 << (10 * (i + 1))
		}
	}
	return text, 1
}

// OutOfRange returns what is allowed when a value isn't that, else "".
func (r *Row) OutOfRange(value uint32) string {
	switch texts := r.Texts(); {
	case texts != nil:
		if uint64(value) >= uint64(len(texts)) {
			return "must be " + r.alternatives()
		}
	case value < r.Min || value > r.Max:
		return fmt.Sprintf("must be between %d and %d %s (is %d)", r.Min, r.Max, r.Unit, value)
	case r.Multiple != 0 && value%r.Multiple != 0:
		return fmt.Sprintf("must be a multiple of %d %s between %d and %d (is %d)", r.Multiple, r.Unit, r.Min, r.Max, value)
	}
	return ""
}

// alternatives returns the values of a flag or choice for a message.
func (r *Row) alternatives() string {
	if r.Kind == Flag {
		return "on or off"
	}
	last := len(r.Choices) - 1
	return strings.Join(r.Choices[:last], ", ") + " or " + r.Choices[last]
}

package settings

import (
	"slices"
	"strconv"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

// Values holds a value for some of the keys. The zero Values holds none.
// Values compare with ==.
//
// Every value is a uint32: numbers themselves, flags 0 or 1, the credits
// policy its conn.CreditsPolicy, ddp.placement its conn.Placement, extensions.v2 V2Off, V2On or V2Required.
type Values struct {
	present KeySet
	v       [NumKeys]uint32
}

// Set gives k a value.
func (v *Values) Set(k Key, value uint32) {
	v.present = v.present.With(k)
	v.v[k] = value
}

// SetFlag gives a flag a value.
func (v *Values) SetFlag(k Key, on bool) { v.Set(k, boolValue(on)) }

// Delete takes the value of k away.
func (v *Values) Delete(k Key) {
	v.present &^= 1 << k
	v.v[k] = 0
}

// Get is the value of k; ok is false when there is none.
func (v *Values) Get(k Key) (value uint32, ok bool) { return v.v[k], v.present.Has(k) }

// Flag is the value of a flag, false when there is none; for extensions.v2
// whether version 2 may be spoken.
func (v *Values) Flag(k Key) bool { return v.v[k] != 0 }

// Keys are those that have a value.
func (v *Values) Keys() KeySet { return v.present }

// Overlay gives v the values that w holds, and keeps its own for the rest.
func (v *Values) Overlay(w *Values) {
	for k := range NumKeys {
		if w.present.Has(k) {
			v.v[k] = w.v[k]
		}
	}
	v.present |= w.present
}

// Differ are the keys that v and w don't say the same of.
func (v *Values) Differ(w *Values) KeySet {
	set := v.present ^ w.present
	for k := range NumKeys {
		if v.v[k] != w.v[k] {
			set = set.With(k)
		}
	}
	return set
}

// Only is v without the keys that are not in set.
func (v *Values) Only(set KeySet) Values {
	out := *v
	for k := range NumKeys {
		if !set.Has(k) {
			out.Delete(k)
		}
	}
	return out
}

// Format writes the value of k as the command line takes it; "" when there
// is none.
func (v *Values) Format(k Key) string {
	value, ok := v.Get(k)
	switch {
	case !ok:
		return ""
	case keys[k].kind == flag && value != 0:
		return "on"
	case keys[k].kind == flag:
		return "off"
	case keys[k].kind == choice:
		return keys[k].choices[value]
	}
	return strconv.FormatUint(uint64(value), 10)
}

// Parse is Format's inverse for one key; it doesn't look at ranges beyond 32
// bits.
func (k Key) Parse(text string) (uint32, error) {
	switch {
	case keys[k].kind == flag && text == "on":
		return 1, nil
	case keys[k].kind == flag && text == "off":
		return 0, nil
	case keys[k].kind == flag:
		return 0, invalid(k.String(), "must be on or off, not %q", text)
	case keys[k].kind == choice:
		if i := slices.Index(keys[k].choices, text); i >= 0 {
			return uint32(i), nil
		}
		return 0, invalid(k.String(), "must be %s, not %q", alternatives(keys[k].choices), text)
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, invalid(k.String(), "must be a whole number of %s, not %q", keys[k].unit, text)
	}
	return uint32(n), nil
}

// FromSettings holds what s says; it has no values for extensions
// that nothing implements.
func FromSettings(s *conn.Settings) Values {
	var v Values
	v.Set(InlineSendMax, s.InlineSendMax)
	v.Set(InlineReceiveSize, s.InlineReceiveSize)
	v.Set(DDPMinChunk, s.DDPMinChunk)
	v.Set(DDPPlacement, uint32(s.Placement))
	v.SetFlag(RemoteInvalidationAccept, s.RemoteInvalidationAccept)
	v.SetFlag(RemoteInvalidationUse, s.RemoteInvalidationUse)
	v.Set(CreditsPolicy, uint32(s.CreditsPolicy))
	v.Set(CreditsMax, s.CreditsMax)
	v.Set(CreditsMin, s.CreditsMin)
	v.Set(CreditsBackchannel, s.CreditsBackchannel)
	v.Set(CreditsWeight, s.CreditsWeight)
	for _, e := range extensions {
		v.SetFlag(e.key, s.Extensions.Has(e.bit))
	}
	switch {
	case s.Extensions.Has(conn.ExtV2Only):
		v.Set(ExtensionV2, V2Required)
	case s.Extensions.Has(conn.ExtV2):
		v.Set(ExtensionV2, V2On)
	default:
		v.Set(ExtensionV2, V2Off)
	}
	return v
}

// extensions are those that are built and on or off.
var extensions = [...]struct {
	key Key
	bit conn.Extensions
}{
	{ExtensionMSGP, conn.ExtMSGP},
	{ExtensionReadReplies, conn.ExtReadReplies},
	{ExtensionCCP, conn.ExtCCP},
	{ExtensionBackchannel, conn.ExtBackchannel},
	{ExtensionCharacteristics, conn.ExtCharacteristics},
	{ExtensionXmit, conn.ExtXmit},
	{ExtensionContinuation, conn.ExtContinuation},
	{ExtensionSendDDP, conn.ExtSendDDP},
}

// Settings is what the data plane takes; keys without a value are zero.
func (v *Values) Settings() *conn.Settings {
	s := &conn.Settings{
		InlineSendMax:            v.v[InlineSendMax],
		InlineReceiveSize:        v.v[InlineReceiveSize],
		DDPMinChunk:              v.v[DDPMinChunk],
		Placement:                conn.Placement(v.v[DDPPlacement]),
		RemoteInvalidationAccept: v.Flag(RemoteInvalidationAccept),
		RemoteInvalidationUse:    v.Flag(RemoteInvalidationUse),
		CreditsPolicy:            conn.CreditsPolicy(v.v[CreditsPolicy]),
		CreditsMax:               v.v[CreditsMax],
		CreditsMin:               v.v[CreditsMin],
		CreditsBackchannel:       v.v[CreditsBackchannel],
		CreditsWeight:            v.v[CreditsWeight],
	}
	for _, e := range extensions {
		if v.Flag(e.key) {
			s.Extensions |= e.bit
		}
	}
	switch v.v[ExtensionV2] {
	case V2On:
		s.Extensions |= conn.ExtV2
	case V2Required:
		s.Extensions |= conn.ExtV2Only
	}
	return s
}

func boolValue(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}

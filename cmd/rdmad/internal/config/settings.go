package config

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/conn"
)

// Settings are the live settings that the file gives; nil where it doesn't.
type Settings struct {
	Inline struct {
		SendMax     *int64 `mapstructure:"send_max"`
		ReceiveSize *int64 `mapstructure:"receive_size"`
	} `mapstructure:"inline"`
	DDP struct {
		MinChunk  *int64  `mapstructure:"min_chunk"`
		Placement *string `mapstructure:"placement"`
	} `mapstructure:"ddp"`
	RemoteInvalidation struct {
		Accept *bool `mapstructure:"accept"`
		Use    *bool `mapstructure:"use"`
	} `mapstructure:"remote_invalidation"`
	Credits struct {
		Policy      *string `mapstructure:"policy"`
		Max         *int64  `mapstructure:"max"`
		Min         *int64  `mapstructure:"min"`
		Backchannel *int64  `mapstructure:"backchannel"`
		Weight      *int64  `mapstructure:"weight"`
	} `mapstructure:"credits"`
	Extensions Extensions `mapstructure:"extensions"`
}

// Extensions are protocol extensions to be turned on or off.
type Extensions struct {
	V2              *Version2 `mapstructure:"v2"`
	Characteristics *bool     `mapstructure:"characteristics"`
	Xmit            *bool     `mapstructure:"xmit"`
	Continuation    *bool     `mapstructure:"continuation"`
	SendDDP         *bool     `mapstructure:"send_ddp"`
	MSGP            *bool     `mapstructure:"msgp"`
	ReadReplies     *bool     `mapstructure:"read_replies"`
	CCP             *bool     `mapstructure:"ccp"`
	Backchannel     *bool     `mapstructure:"backchannel"`
}

// Version2 says whether version 2 is spoken: off, on or required.
type Version2 string

// The values of Version2.
const (
	V2Off      Version2 = "off"
	V2On       Version2 = "on"
	V2Required Version2 = "required"
)

// versions2 are the values by what a file may say.
var versions2 = map[string]Version2{
	"off": V2Off, "false": V2Off, "no": V2Off, "on": V2On, "true": V2On, "yes": V2On, "required": V2Required,
}

// UnmarshalText takes what a file may say.
func (v *Version2) UnmarshalText(text []byte) error {
	value, ok := versions2[strings.ToLower(string(text))]
	if !ok {
		return fmt.Errorf("must be off, on or required, not %q", text)
	}
	*v = value
	return nil
}

// bits are the extensions that it turns on.
func (v Version2) bits() conn.Extensions {
	switch v {
	case V2On:
		return conn.ExtV2
	case V2Required:
		return conn.ExtV2Only
	}
	return 0
}

// all yields the extensions that are on or off by name, in order.
func (e *Extensions) all() iter.Seq2[string, *bool] {
	return func(yield func(string, *bool) bool) {
		_ = yield("characteristics", e.Characteristics) && yield("xmit", e.Xmit) &&
			yield("continuation", e.Continuation) && yield("send_ddp", e.SendDDP) && yield("msgp", e.MSGP) &&
			yield("read_replies", e.ReadReplies) && yield("ccp", e.CCP) && yield("backchannel", e.Backchannel)
	}
}

// Initial are the settings to start with, and the dotted names of those that
// the file gave; all others are defaults. The configuration was checked, so
// that every value is in its range.
func (s *Settings) Initial() (all conn.Settings, given []string) {
	all = conn.DefaultSettings()
	for _, k := range numberKeys {
		if v := *k.in(s); v != nil {
			*k.out(&all) = uint32(*v)
			given = append(given, k.name)
		}
	}
	if v := s.RemoteInvalidation.Accept; v != nil {
		all.RemoteInvalidationAccept = *v
		given = append(given, "remote_invalidation.accept")
	}
	if v := s.RemoteInvalidation.Use; v != nil {
		all.RemoteInvalidationUse = *v
		given = append(given, "remote_invalidation.use")
	}
	if p := s.DDP.Placement; p != nil {
		all.Placement = conn.Placement(slices.Index(conn.Placements[:], *p))
		given = append(given, "ddp.placement")
	}
	if p := s.Credits.Policy; p != nil {
		all.CreditsPolicy = conn.CreditsFixed
		if *p == "adaptive" {
			all.CreditsPolicy = conn.CreditsAdaptive
		}
		given = append(given, "credits.policy")
	}
	if v := s.Extensions.V2; v != nil {
		all.Extensions |= v.bits()
		given = append(given, "extensions.v2")
	}
	for name, on := range s.Extensions.all() {
		if on == nil || built[name] == 0 {
			continue
		}
		if *on {
			all.Extensions |= built[name]
		}
		given = append(given, "extensions."+name)
	}
	return all, given
}

// built are the extensions that this rdmad has.
var built = map[string]conn.Extensions{
	"msgp":         conn.ExtMSGP,
	"read_replies": conn.ExtReadReplies,
	"ccp":          conn.ExtCCP,
	"backchannel":  conn.ExtBackchannel,

	"characteristics": conn.ExtCharacteristics,
	"xmit":            conn.ExtXmit,
	"continuation":    conn.ExtContinuation,
	"send_ddp":        conn.ExtSendDDP,
}

// numberKey is a live setting with a range.
type numberKey struct {
	name     string
	min, max int64
	in       func(*Settings) **int64
	out      func(*conn.Settings) *uint32
}

var numberKeys = []numberKey{
	{"inline.send_max", conn.InlineMin, conn.InlineMax,
		func(s *Settings) **int64 { return &s.Inline.SendMax },
		func(s *conn.Settings) *uint32 { return &s.InlineSendMax }},
	{"inline.receive_size", conn.InlineMin, conn.InlineMax,
		func(s *Settings) **int64 { return &s.Inline.ReceiveSize },
		func(s *conn.Settings) *uint32 { return &s.InlineReceiveSize }},
	{"ddp.min_chunk", 0, conn.DDPMinChunkMax,
		func(s *Settings) **int64 { return &s.DDP.MinChunk },
		func(s *conn.Settings) *uint32 { return &s.DDPMinChunk }},
	{"credits.min", 1, conn.CreditsLimit,
		func(s *Settings) **int64 { return &s.Credits.Min },
		func(s *conn.Settings) *uint32 { return &s.CreditsMin }},
	{"credits.max", 1, conn.CreditsLimit,
		func(s *Settings) **int64 { return &s.Credits.Max },
		func(s *conn.Settings) *uint32 { return &s.CreditsMax }},
	{"credits.backchannel", 0, conn.ReverseLimit,
		func(s *Settings) **int64 { return &s.Credits.Backchannel },
		func(s *conn.Settings) *uint32 { return &s.CreditsBackchannel }},
	{"credits.weight", 1, conn.WeightLimit,
		func(s *Settings) **int64 { return &s.Credits.Weight },
		func(s *conn.Settings) *uint32 { return &s.CreditsWeight }},
}

func (s *Settings) validate(d *document, _ Options) {
	for _, k := range numberKeys {
		if v := *k.in(s); v != nil && (*v < k.min || *v > k.max) {
			d.fail("settings."+k.name, "%d is out of range %d..%d", *v, k.min, k.max)
		}
	}
	if v := s.Inline.ReceiveSize; v != nil && *v%1024 != 0 {
		// CM private data counts in KiB (RFC 8797 §4.1).
		d.fail("settings.inline.receive_size", "%d is not a multiple of 1024", *v)
	}
	if p := s.DDP.Placement; p != nil && !slices.Contains(conn.Placements[:], *p) {
		d.fail("settings.ddp.placement", "%q is none of %s", *p, strings.Join(conn.Placements[:], ", "))
	}
	if p := s.Credits.Policy; p != nil && *p != "fixed" && *p != "adaptive" {
		d.fail("settings.credits.policy", "%q is neither fixed nor adaptive", *p)
	}
	if all, _ := s.Initial(); all.CreditsMax > 0 && all.CreditsMin > all.CreditsMax {
		d.fail("settings.credits.min", "%d is above credits.max, %d", all.CreditsMin, all.CreditsMax)
	}
}

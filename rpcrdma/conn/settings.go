package conn

import "github.com/rdmad/rdmad/rpcrdma/settings"

// Settings are the live settings that apply to one connection.
type Settings = settings.Settings

// Extensions is a set of protocol extensions.
type Extensions = settings.Extensions

// The extensions, by their dotted names.
const (
	ExtMSGP        = settings.ExtMSGP
	ExtReadReplies = settings.ExtReadReplies
	ExtCCP         = settings.ExtCCP
	ExtBackchannel = settings.ExtBackchannel
	ExtV2          = settings.ExtV2
	ExtV2Only      = settings.ExtV2Only

	ExtCharacteristics = settings.ExtCharacteristics
	ExtXmit            = settings.ExtXmit
	ExtContinuation    = settings.ExtContinuation
	ExtSendDDP         = settings.ExtSendDDP
)

// CreditsPolicy selects how grants are chosen.
type CreditsPolicy = settings.Policy

// The credit policies.
const (
	CreditsFixed    = settings.CreditsFixed
	CreditsAdaptive = settings.CreditsAdaptive
)

// Placement is what a requester asks for large results of peers that place items by Sends
// (rtrext §7.4): ddp.placement.
type Placement = settings.Placement

// The placements.
const (
	PlaceWritten = settings.PlaceWritten
	PlaceSent    = settings.PlaceSent
	PlaceChosen  = settings.PlaceChosen
	PlaceBySize  = settings.PlaceBySize
)

// Limits of the settings, in bytes and credits.
const (
	InlineMin      = settings.InlineMin
	InlineMax      = settings.InlineMax
	CreditsLimit   = settings.CreditsLimit
	ReverseLimit   = settings.ReverseLimit
	DDPMinChunkMax = settings.DDPMinChunkMax
)

// DefaultSettings returns the values that hold when nothing is set.
func DefaultSettings() Settings { return settings.Default() }

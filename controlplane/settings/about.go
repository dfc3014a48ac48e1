package settings

import (
	"fmt"
	"strings"
)

// About says what a setting is, for operators.
type About struct {
	Summary     string // what it does
	Allowed     string // values that it takes
	TakesEffect string // when a change is in force
}

const (
	atOnce      = "at once"
	nextConnect = "when the peer connects again: version 1 fixes it at connect"
	nextGrants  = "at once, in the next grants"
	newMessages = "with new messages at once; what a peer already agreed to is finished first"
)

var abouts = [NumKeys]struct{ summary, effect string }{
	InlineSendMax:            {"largest Send that rdmad makes, in bytes; what the peer receives bounds it too", "at once, up to what the peer was told at connect; above that when it connects again, a client after an hour without a connection"},
	InlineReceiveSize:        {"size of the receive buffers that rdmad posts and advertises, in bytes", nextConnect},
	DDPMinChunk:              {"smallest item, in bytes, that moves by RDMA Read or Write although the message would fit inline", atOnce},
	DDPPlacement:             {"what is asked for large results where extensions.send_ddp is in use: written by RDMA, sent into target segments, the peer's choice, or by size", "at once, with the next calls"},
	RemoteInvalidationAccept: {"advertise that the peer may invalidate rdmad's steering tags", nextConnect},
	RemoteInvalidationUse:    {"Send With Invalidate in replies to peers that accept it", atOnce},
	CreditsPolicy:            {"how grants are chosen: always credits.max, or by load between credits.min and credits.max", nextGrants},
	CreditsMax:               {"most calls that a peer may have in flight", "at once, in the next grants; receives are posted first"},
	CreditsMin:               {"least that the adaptive policy grants", nextGrants},
	CreditsBackchannel:       {"calls that rdmad may have in flight towards the peer; 0 is none", nextGrants},
	CreditsWeight:            {"part of what the adaptive policy has to give, against the weights of other connections", nextGrants},
	ExtensionV2:              {"RPC-over-RDMA version 2: not spoken, spoken with peers that do, or nothing else", "until the first call of a connection; after it when the peer connects again"},
	ExtensionCharacteristics: {"transport characteristics of version 2", newMessages},
	ExtensionXmit:            {"transmission header types of version 2: what continuation and send_ddp are made of", newMessages},
	ExtensionContinuation:    {"messages continued over several Sends, version 2", newMessages},
	ExtensionSendDDP:         {"items in target segments of the receiver by Send, version 2", newMessages},
	ExtensionMSGP:            {"RDMA_MSGP, the padded message of RFC 5666", newMessages},
	ExtensionReadReplies:     {"replies that the requester RDMA Reads and acknowledges with RDMA_DONE (RFC 5666)", newMessages},
	ExtensionCCP:             {"Connection Configuration Protocol, ONC RPC program 100417 (RFC 5666)", "when the peer connects again"},
	ExtensionBackchannel:     {"calls from server to client (RFC 8167)", newMessages},
}

// About describes the key.
func (k Key) About() About {
	return About{Summary: abouts[k].summary, Allowed: k.allowed(), TakesEffect: abouts[k].effect}
}

func (k Key) allowed() string {
	info := &keys[k]
	switch info.kind {
	case flag:
		return "on, off"
	case choice:
		return strings.Join(info.choices, ", ")
	}
	parts := []string{fmt.Sprintf("%d to %d %s", info.min, info.max, info.unit)}
	if info.multiple != 0 {
		parts = append(parts, fmt.Sprintf("a multiple of %d", info.multiple))
	}
	return strings.Join(parts, ", ")
}

// Package loglimit keeps a log readable when lines of one kind come in a flood:
// the first ones are logged, the others are counted, and the counts are logged
// every few seconds.
//
// A kind is a level and a message, so a message must be a constant text. What
// differs from line to line belongs in attributes. The attribute PeerKey names
// the peer that caused a line: counts are per kind and peer.
//
// Two kinds of lines are rdmad's own and its operator's: errors, and lines of
// level info, that name no peer. Of these only lines with the same attributes
// are one kind, so that none is lost among others.
//
// The caller calls Handler.Flush before the process ends.
package loglimit

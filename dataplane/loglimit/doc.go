// Package loglimit keeps a log readable when lines of one kind come in a flood:
// the first ones are logged, the others are counted, and the counts are logged
// every few seconds.
//
// A kind is a level and a message, so a message must be a constant text. Details
// that differ from line to line belong in attributes. The attribute PeerKey names
// the peer that caused a line. Lines are counted per kind and peer.
//
// Errors, and lines of level info, that name no peer are about rdmad itself or its
// operator. Such lines are of the same kind only if their attributes are the same,
// too, so that none is lost among others.
//
// The caller calls Handler.Flush before the process ends.
package loglimit

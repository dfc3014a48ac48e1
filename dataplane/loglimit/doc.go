// Package loglimit keeps a log readable when many lines of one kind arrive: it logs the
// first ones, counts the others, and logs the counts every few seconds.
//
// A kind is a level and a message, so a message must be a constant text. Put details that
// differ from line to line into attributes. The attribute PeerKey names the peer that
// caused a line. Lines are counted per kind and peer.
//
// Errors, and lines of level info, without a peer concern rdmad itself or its operator.
// Such lines are of the same kind only if their attributes are the same, too, so that none
// is lost among others.
//
// Call Handler.Flush before the process ends.
package loglimit

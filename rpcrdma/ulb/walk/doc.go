// Package walk goes over XDR (RFC 4506) by tables, without decoding it: from a
// Type, made of a few constructors, a Walker learns how far the items reach,
// and tells of those that the Type has tagged.
//
// The bytes may come in pieces, cut anywhere: a Walker goes as far as there
// are bytes and goes on with the next piece. It stops at the first byte of
// each Item, so that a caller can move the item's bytes elsewhere, straight
// from a socket.
//
// A Walker does not allocate. It never looks ahead: what it has reported is
// settled, whatever follows. Roundup bytes must be there; their values, and
// those of enumerations that decide nothing, are not looked at.
//
// A caller's duties:
//
//   - make Types at start only: a constructor panics on a table that is wrong;
//   - a Type is read only and may be shared; a Walker belongs to one goroutine;
//   - take More at the end of the stream as ErrShort;
//   - say how long the stream is where it is known: lengths are then checked
//     against it at once, else only against the Type's limits.
package walk

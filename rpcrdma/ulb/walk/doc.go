// Package walk walks over XDR data (RFC 4506) by tables, without decoding it. From a Type,
// made of a few constructors, a Walker learns where items end, and reports those that the
// Type has tagged.
//
// The data may come in pieces, cut anywhere. A Walker goes as far as there are bytes and
// continues with the next piece. It stops at the first byte of each Item, so that a caller
// can move the item's bytes elsewhere, directly from a socket.
//
// A Walker does not allocate. It never looks ahead: what it has reported is final. Roundup
// bytes must be present. Their values, and those of enumerations that decide nothing, are
// not checked.
//
// The caller must:
//
//   - make Types only at start: a constructor panics on an invalid table;
//   - not change a Type, which may be shared. A Walker belongs to one goroutine;
//   - treat More at the end of the stream as ErrShort;
//   - give the length of the stream if it is known. Lengths are then checked against it at
//     once, and otherwise only against the Type's limits.
package walk

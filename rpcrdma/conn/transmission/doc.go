// Package transmission implements the transmissions of version 2 (rtrext §9). A message
// goes as one Send: an XMTREQ or XMTRESP whose body says which items are not in the payload
// stream. With extensions.continuation it may go as several Sends: XMTCONTs carry the rest
// of the stream. The Sends of one message are a group.
//
// A Group divides one of our messages between its Sends. A Layout finds places for items in
// the peer's receives. A Gathering collects a group of the peer. Items and Finder find the
// items that the peer placed in our receives. None of them allocates once its storage has
// grown.
//
// The caller must:
//
//   - send the transmissions of a group in order, with nothing between them;
//   - leave the receives of a Gathering unchanged until End, and then give them back;
//   - end a Gathering with Interrupt when another message comes before it is complete.
package transmission

// Limit is how many transmissions one group may have with extensions.continuation on: those
// of a request that we accept and those of a response that we make.
const Limit = 8

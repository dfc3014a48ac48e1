// Package rdmap is the codec of the Remote Direct Memory Access Protocol (RFC 5040): the
// control byte with its opcode, the Read Request and the Terminate message. The opcode
// determines whether a message is tagged and on which queue it is sent; the package checks
// that. The caller implements placement and order.
//
// Decoded values own their memory.
package rdmap

// Package rdmap is the codec of the Remote Direct Memory Access Protocol
// (RFC 5040): the control byte with its opcode, the Read Request and the
// Terminate message. What is tagged or untagged, and on which queue, is a
// property of the opcode and told here; placement and order are the caller's.
//
// Decoded values own their memory.
package rdmap

// Package rping speaks the protocol of rdma-core's rping program on the verbs
// API, as client and as server, so that a provider can be tested against a
// kernel's verbs.
//
// For each ping the client sends the address, key and length of a buffer
// (16 bytes, big-endian); the server RDMA Reads it and sends an empty message
// of 16 bytes; the client sends those of a second buffer; the server RDMA
// Writes there what it has read, and sends again; the client compares. The data
// is a string: rping's server writes back as much as strlen says, so a payload
// of n bytes is n-1 letters and a zero.
package rping

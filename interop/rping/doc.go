// Package rping implements the protocol of rdma-core's rping program on the
// verbs API, as client and as server. It tests a provider against a kernel's
// verbs.
//
// For each ping the client sends the address, key and length of a buffer (16
// bytes, big-endian). The server RDMA Reads the buffer and sends an empty
// message of 16 bytes. The client sends the same for a second buffer. The
// server RDMA Writes the data there and sends an empty message again. The
// client compares the data. The data is a string, because rping's server writes
// back as many bytes as strlen returns: a payload of n bytes is n-1 letters and
// a zero.
package rping

// Package ddp is the codec of Direct Data Placement segment headers (RFC 5041 §4). Package
// rdmap defines the byte in the ULP control field. This package only carries it.
//
// The caller checks queue numbers, MSN and MO, because that needs connection state. Decoded
// values own their memory.
package ddp

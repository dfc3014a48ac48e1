// Package ddp is the codec of Direct Data Placement segment headers (RFC
// 5041 §4), with the byte that RDMAP puts into the ULP control field kept as
// it is: package rdmap gives it a meaning.
//
// The caller checks queue numbers, MSN and MO, because that needs connection state.
// Decoded values own their memory.
package ddp

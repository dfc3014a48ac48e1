// Package ddp is the codec of Direct Data Placement segment headers (RFC
// 5041 §4), with the byte that RDMAP puts into the ULP control field kept as
// it is: package rdmap gives it a meaning.
//
// Queue numbers, MSN and MO checks need connection state and are the
// caller's; the header is only taken apart here. Decoded values own their
// memory.
package ddp

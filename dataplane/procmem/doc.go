// Package procmem keeps the memory of the whole process within one limit, as the
// kernel counts it.
//
// Memory is of two kinds. What peers make rdmad hold in bulk is mapped outside the Go
// heap: registered memory, and the buffers of RPC over TCP (package offheap). It is at
// most 3/4 of the limit, and package offheap refuses more. Everything else is the Go
// runtime's. Its limit is what the mapped memory leaves, at least a quarter and
// MinGo: the garbage collector works harder when it comes near. Whenever mapped memory
// comes or goes, the Go runtime's limit moves.
//
// A control group may allow less than the operator has asked for. Then its limit
// counts.
package procmem

// Package procmem keeps the memory of the whole process within one limit, as the
// kernel counts it.
//
// The process has two kinds of memory. Bulk memory is mapped outside the Go heap
// (package offheap): registered memory, and the buffers of RPC over TCP. It may take
// at most 3/4 of the limit; package offheap refuses more. All other memory belongs to
// the Go runtime. The Go runtime's limit is the rest, at least a quarter and MinGo.
// The garbage collector works harder near that limit. Whenever the amount of mapped
// memory changes, the Go runtime's limit changes with it.
//
// A process that was busy and comes to rest collects its garbage, and gives the memory back
// to the kernel (Process.Rest).
//
// A control group may allow less than the operator asks for. Then the control
// group's limit counts.
package procmem

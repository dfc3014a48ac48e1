// Package softiwarp is a provider of the verbs and of the connection manager that
// implements iWARP in software: RDMAP over DDP over MPA over a TCP socket (RFC 5040, 5041,
// 5044, 6581). It is wire-compatible with Linux siw and with iWARP adapters.
//
// One goroutine at a time reads a connection and places data. If only one queue pair uses
// the completion queue, it is the consumer's goroutine that waits for completions.
// Otherwise it is a receiving goroutine (reader.go). The posting goroutine sends its own
// requests, and the reader sends Read Responses. Neither waits for the peer. When the
// socket is full, a writer goroutine continues until everything is sent. The goroutine
// that sends owns transmission (queuePair.txBusy) and everything in queuePair.tx.
//
// Lock order: the queue pair's, recvQueue.mu, the CQ's. No lock is held during a system call
// or while waiting for the peer.
//
// An idle connection keeps only its queues. Buffers come from a pool while there is data to
// read (256 KiB) or to send (132 KiB). A peer that stops in the middle of a message ties up at
// most 64 KiB for the start of one FPDU, and 132 KiB of data that it does not read.
package softiwarp

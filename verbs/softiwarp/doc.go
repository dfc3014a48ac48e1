// Package softiwarp is iWARP in software: RDMAP over DDP over MPA over a TCP
// socket (RFC 5040, 5041, 5044, 6581), wire-compatible with Linux siw and
// with iWARP adapters, as a provider of the verbs and of the connection
// manager.
//
// A connection has one goroutine that receives and places data. It lives as long as
// the connection. The goroutine that has something to send sends it: the posting one,
// or the receiving one for Read Responses. Neither waits for the peer. When the socket
// takes no more, a writer goroutine takes over until everything is sent. The goroutine
// that sends owns transmission (queuePair.txBusy) and everything in queuePair.tx.
//
// Lock order: the queue pair's, recvQueue.mu, the CQ's; memWindow.mu, then
// queuePair.winMu or stagTable.mu. No lock is held over a system call, nor while
// waiting for the peer.
//
// An idle connection keeps only its queues. Buffers of 256 KiB come from a pool while
// there is data to read or to send. A peer that stops in the middle of a message can
// hold at most 64 KiB, the start of one FPDU, and 256 KiB that it does not read.
package softiwarp

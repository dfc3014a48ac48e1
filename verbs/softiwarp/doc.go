// Package softiwarp is iWARP in software: RDMAP over DDP over MPA over a TCP
// socket (RFC 5040, 5041, 5044, 6581), wire-compatible with Linux siw and
// with iWARP adapters, as a provider of the verbs and of the connection
// manager.
//
// A connection has one goroutine that receives and places, and lives as long
// as the connection. Sending is done by whoever has something to send: the
// posting goroutine, or the receiving one for Read Responses; never waiting
// for the peer. When the socket takes no more, a writer goroutine takes over
// until everything is out. Whoever sends owns transmission (qp.txBusy) and
// everything in qp.tx.
//
// Lock order: qp.mu, recvQueue.mu, cq.mu; memWindow.mu, then qp.winMu or
// stagTable.mu. No lock is held over a system call, nor while waiting for
// anything that the peer does.
//
// Memory of a connection at rest is its queues; buffers of 256 KiB come from
// a pool while there is data to read or to send. A peer that stops in the
// middle makes a connection keep at most one FPDU's start, 64 KiB, and
// 256 KiB that it does not take.
//
// Closing any object twice is closing it once.
package softiwarp

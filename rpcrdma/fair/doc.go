// Package fair shares memory and work between connections, so that none of them
// takes from another.
//
// Pool divides bytes: each holder has a guaranteed share, and borrows above it
// from what others leave. Pace says whether a holder gives back what it holds.
// Queue orders work by weighted fair queueing.
//
// A caller's duties:
//
//   - Release to the Share what was acquired from it, once;
//   - Leave when the connection has ended; what is still held stays counted until
//     it is released;
//   - call a Queue's methods under one lock of the caller's.
package fair

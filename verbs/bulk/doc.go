// Package bulk limits how many goroutines move large amounts of data at once. A goroutine
// that copies data into or out of the kernel keeps a processor. If more of them are ready
// than there are processors, then everything else in the process waits in the Go runtime's
// queues behind them, and the runtime seldom looks for input from the network.
//
// The process has one place for each processor. While small messages are sent, too, one
// processor is kept free for them, so there is one place less, but at least one. Waiting
// goroutines get places in the order in which they came.
//
// While small messages are sent, goroutines that move data also let other threads of the
// machine go first now and then (sched_yield(2)). Otherwise the kernel may give those the
// processor only at the next tick of its clock, up to 10 ms later.
//
// The caller must:
//
//   - Enter before each system call that may move more than Large bytes, and Leave after it;
//   - not wait for anything else between the two, least of all for a peer or a disk;
//   - call Small when it sends a message that is not part of a larger one.
package bulk

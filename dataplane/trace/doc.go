// Package trace lets any number of watchers look at what connections send,
// receive, read and write, without slowing them: what a watcher has no room
// for is dropped and counted.
//
// A Hub knows the connections and the watchers. As long as no watcher wants to
// see a connection, its tap is empty. A Watcher has a Ring of bounded memory
// of its own; bytes beyond the snap length stay behind. A Decoder makes a
// Message, and a line of text, of an Event.
//
// A caller's duties:
//
//   - Add each connection before its first message, with the Tap handed to
//     the transport, and Close it when it has ended;
//   - Close every Watcher, and call its Next from one goroutine at a time;
//   - keep nothing of an Event after the next call of Next.
//
// Lock order: a connection's lock, Watcher.mu; Hub.mu, Watcher.mu.
package trace

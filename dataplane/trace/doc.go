// Package trace shows watchers what connections send, receive, read and write.
// It does not slow the connections down: if a watcher has no room for an event,
// the event is dropped and counted.
//
// A Hub holds the connections and the watchers. While no watcher watches a
// connection, the connection's tap is empty. Each Watcher has its own ring of
// bounded memory. The ring holds the bytes of an event up to the snap length. A
// Decoder makes a Message, and a line of text, from an Event.
//
// The caller must:
//
//   - Add each connection before its first message, pass its Tap to the transport, and Close
//     it when it has ended;
//   - Close every Watcher, and call its Next from one goroutine at a time;
//   - not use an Event after the next call of Next.
//
// Lock order: a connection's lock, Watcher.mu; Hub.mu, Watcher.mu.
package trace

// Package refereetest puts package referee around a verbs provider, for tests:
// every connection that the provider makes is judged, and a violation fails
// the test.
//
// Each end of a connection has a referee of its own, which sees the
// connection from that end and reports what that end does wrong. A peer that
// breaks rules on purpose uses the provider itself, without a referee around
// it.
//
// Each queue pair needs completion queues of its own, and one goroutine polls
// a completion queue at a time.
package refereetest

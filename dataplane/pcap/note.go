package pcap

import "slices"

// Note is what a file says about a connection in addition to its packets: a comment on the
// last packet of the artificial handshake.
type Note struct {
	Began  bool // rdmad began the connection, so it is the client
	Midway bool // the connection began before the capture
}

// notes are the comments for each Note.
var notes = map[Note]string{
	{}:                          "handshake made up; seen at the server's end",
	{Midway: true}:              "handshake made up; seen at the server's end; the connection began before the capture",
	{Began: true}:               "handshake made up; seen at the client's end",
	{Began: true, Midway: true}: "handshake made up; seen at the client's end; the connection began before the capture",
}

// ParseNote finds a note among the comments of a packet.
func ParseNote(comments []string) (n Note, ok bool) {
	for n, text := range notes {
		if slices.Contains(comments, text) {
			return n, true
		}
	}
	return Note{}, false
}

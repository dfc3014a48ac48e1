// Package fleet proves what rdmad says of fleets, on etcd clusters of three members: the grants
// that suffice, many nodes at once, and that nothing goes wrong when processes and the network
// do. It has tests alone.
package fleet

package dataplane

import "slices"

// registry holds the connections that are up; under Dataplane.mu. A slice serves the
// frequent walks over all connections.
type registry struct {
	byID    map[string]*conn
	all     []*conn // by id
	changes uint64  // additions and removals
}

func newRegistry() registry { return registry{byID: make(map[string]*conn)} }

func (r *registry) add(c *conn) {
	r.changes++
	r.byID[c.key.ID] = c
	r.all = slices.Insert(r.all, r.at(c), c)
}

func (r *registry) remove(c *conn) {
	r.changes++
	delete(r.byID, c.key.ID)
	i := r.at(c)
	r.all = slices.Delete(r.all, i, i+1)
}

// at returns the index of c in all, or where to insert it.
func (r *registry) at(c *conn) int {
	i, _ := slices.BinarySearchFunc(r.all, c.key.ID, func(other *conn, id string) int { return CompareID(other.key.ID, id) })
	return i
}

package dataplane

import "slices"

// registry is the connections that are up, under Dataplane.mu. They are looked
// at all together far more often than they come and go.
type registry struct {
	byID map[string]*conn
	all  []*conn // by id
}

func newRegistry() registry { return registry{byID: make(map[string]*conn)} }

func (r *registry) add(c *conn) {
	r.byID[c.key.ID] = c
	r.all = slices.Insert(r.all, r.at(c), c)
}

func (r *registry) remove(c *conn) {
	delete(r.byID, c.key.ID)
	i := r.at(c)
	r.all = slices.Delete(r.all, i, i+1)
}

// at is c's place.
func (r *registry) at(c *conn) int {
	i, _ := slices.BinarySearchFunc(r.all, c.key.ID, func(other *conn, id string) int { return CompareID(other.key.ID, id) })
	return i
}

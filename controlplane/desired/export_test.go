package desired

// UseDisk stores further revisions on d.
func (s *Store) UseDisk(d Disk) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.disk = d
}

// Disk is where revisions are stored.
func (s *Store) Disk() Disk {
	s.changing.Lock()
	defer s.changing.Unlock()
	return s.disk
}

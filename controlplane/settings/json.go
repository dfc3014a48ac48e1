package settings

// MarshalText returns String.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the text with ParseScope.
func (s *Scope) UnmarshalText(b []byte) (err error) {
	*s, err = ParseScope(string(b))
	return err
}

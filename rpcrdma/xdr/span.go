package xdr

// Span is a run of bytes of an XDR stream, from Begin up to End. The zero Span
// is that of a stream of which no part is known.
type Span struct{ Begin, End int }

// Empty says that there are no bytes in it.
func (s Span) Empty() bool { return s.Begin >= s.End }

// Meets says that s and t have bytes in common.
func (s Span) Meets(t Span) bool { return max(s.Begin, t.Begin) < min(s.End, t.End) }

// Shift is s in a stream that has n bytes more before.
func (s Span) Shift(n int) Span { return Span{s.Begin + n, s.End + n} }

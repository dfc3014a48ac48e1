package xdr

// Span is a run of bytes of an XDR stream, from Begin to before End. The zero Span means
// that no part of the stream is known.
type Span struct{ Begin, End int }

// Empty reports whether the span has no bytes.
func (s Span) Empty() bool { return s.Begin >= s.End }

// Meets reports whether s and t have bytes in common.
func (s Span) Meets(t Span) bool { return max(s.Begin, t.Begin) < min(s.End, t.End) }

// Shift returns s in a stream with n more bytes before it.
func (s Span) Shift(n int) Span { return Span{s.Begin + n, s.End + n} }

package oncrpc

import "io"

// Instead of Read, the methods below read a record in parts as they arrive, for example
// into several buffers.

// Fragment returns how many bytes of the current fragment are left. If none are, it continues
// with the next fragment. It returns 0 at the record's end.
func (r *RecordReader) Fragment() (int, error) {
	for r.left == 0 && !r.last {
		if err := r.nextFragment(); err != nil {
			return 0, Unexpected(err)
		}
	}
	return r.left, nil
}

// ReadPart reads the next bytes of the record, at most len(b) and at least one
// unless b is empty. The error is io.EOF at the record's end.
func (r *RecordReader) ReadPart(b []byte) (int, error) {
	left, err := r.Fragment()
	if err != nil {
		return 0, err
	}
	if left == 0 {
		return 0, io.EOF
	}
	n, err := r.r.Read(b[:min(len(b), left)])
	r.left -= n
	if err != nil && n == 0 {
		return 0, Unexpected(err)
	}
	return n, nil
}

// ReadParts reads the next len(b) bytes of the record. The error is io.EOF if the record
// has fewer: then they have been read, and the stream is in sync.
func (r *RecordReader) ReadParts(b []byte) error {
	for len(b) > 0 {
		n, err := r.ReadPart(b)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

package oncrpc

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Record marking (RFC 5531 §11): on a byte stream a message is a record of one or more
// fragments, each after a word with its length.
const (
	// RecordMarkSize is the size of the word before each fragment, in bytes.
	RecordMarkSize = 4
	// MaxFragment is the most bytes of one fragment.
	MaxFragment = 1<<31 - 1

	lastFragment = 1 << 31
	// maxFragments limits the fragments of a record, which may be empty.
	maxFragments = 4096
	// growStep is how far a record's buffer grows beyond what has arrived, so that a mark
	// alone costs no more memory than this.
	growStep = 64 << 10
)

// Errors of a RecordReader. After any error the stream is out of sync and its connection
// must be closed.
var (
	ErrRecordTooLarge = errors.New("oncrpc: record larger than the limit")
	ErrFragments      = errors.New("oncrpc: record has too many fragments")
)

// AppendRecordMark appends the mark of a fragment of n bytes, at most
// MaxFragment. last is set on a record's last fragment.
func AppendRecordMark(dst []byte, n int, last bool) []byte {
	mark := uint32(n)
	if last {
		mark |= lastFragment
	}
	return xdr.AppendUint32(dst, mark)
}

// RecordReader reads records from a byte stream. It reads each mark separately, so r should
// be buffered.
type RecordReader struct {
	r     io.Reader
	limit int

	mark      [RecordMarkSize]byte
	left      int  // bytes of the current fragment not read yet
	size      int  // bytes of the record announced so far
	fragments int  // of the record so far
	last      bool // the present fragment is the record's last
}

// NewRecordReader reads records of at most limit bytes from r.
func NewRecordReader(r io.Reader, limit int) *RecordReader {
	return &RecordReader{r: r, limit: limit}
}

// Next waits for the next record's first fragment and returns its length, as a hint for the
// buffer to pass to Read. The previous record must have been read. The error is io.EOF if
// the stream ends between two records.
func (r *RecordReader) Next() (int, error) {
	r.size, r.fragments = 0, 0
	err := r.nextFragment()
	return r.left, err
}

// Whole reports whether the fragments so far are the whole record.
func (r *RecordReader) Whole() bool { return r.last }

// Size returns the total length of the record's fragments so far, in bytes.
func (r *RecordReader) Size() int { return r.size }

// Read appends the record that Next announced to dst, which grows no faster than bytes arrive.
// The result may be longer than dst even after an error.
func (r *RecordReader) Read(dst []byte) ([]byte, error) {
	for {
		left, err := r.Fragment()
		if left == 0 || err != nil {
			return dst, err
		}
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(left, max(growStep, len(dst))))
		}
		at := len(dst)
		dst = dst[:at+min(left, cap(dst)-at)]
		n, err := io.ReadFull(r.r, dst[at:])
		r.left -= n
		if err != nil {
			return dst[:at+n], Unexpected(err)
		}
	}
}

// nextFragment reads a mark and checks it against the limits.
func (r *RecordReader) nextFragment() error {
	r.left = 0
	if _, err := io.ReadFull(r.r, r.mark[:]); err != nil {
		return err
	}
	mark := binary.BigEndian.Uint32(r.mark[:])
	n := int64(mark &^ lastFragment)
	if n > int64(r.limit-r.size) {
		return ErrRecordTooLarge
	}
	if r.fragments == maxFragments {
		return ErrFragments
	}
	r.left = int(n)
	r.size += r.left
	r.fragments++
	r.last = mark&lastFragment != 0
	return nil
}

// Unexpected converts io.EOF inside a record, which is then too short.
func Unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

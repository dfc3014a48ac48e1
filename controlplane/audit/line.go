package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// A line is the entry's JSON object with one more member at its end, the hash
// over all that stands before it. The entry's own member "previous" is the
// hash of the line before, which chains the lines.
const (
	hashMember = `,"hash":"`
	lineEnd    = "\"}\n"
	hashText   = 2 * sha256.Size // hexadecimal
	tailLength = len(hashMember) + hashText + len(lineEnd)
	// maxLine bounds a line: four long texts, whose bytes may be escaped as
	// \u00XX, and the rest.
	maxLine = 4*6*(maxText+256) + 64<<10
	minLine = 190 // no line is shorter
)

// chain is a place in the log: the last entry's sequence and hash.
type chain struct {
	sequence uint64
	hash     string // "" before the first entry
}

// appendLine appends e as the line that follows at, and gives the place after
// it. It sets e's sequence and previous hash.
func (at chain) appendLine(b []byte, e *Entry) ([]byte, chain, error) {
	e.Sequence, e.Previous = at.sequence+1, at.hash
	body, err := json.Marshal(e)
	if err != nil {
		return b, at, fmt.Errorf("audit entry: %w", err)
	}
	body = body[:len(body)-1]
	hash := hashOf(body)
	b = append(b, body...)
	b = append(b, hashMember...)
	b = append(b, hash...)
	return append(b, lineEnd...), chain{e.Sequence, hash}, nil
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// parseLine reads a line with its end. The hash is checked, its place in the
// chain is not; see follows.
func parseLine(line []byte) (e *Entry, after chain, err error) {
	if len(line) <= tailLength {
		return nil, chain{}, fmt.Errorf("%d bytes are no entry", len(line))
	}
	body, tail := line[:len(line)-tailLength], line[len(line)-tailLength:]
	hash, ok := bytes.CutPrefix(tail, []byte(hashMember))
	if !ok || !bytes.HasSuffix(hash, []byte(lineEnd)) {
		return nil, chain{}, fmt.Errorf("no hash at the end")
	}
	hash = hash[:hashText]
	if hashOf(body) != string(hash) {
		return nil, chain{}, fmt.Errorf("its hash is another")
	}
	e = new(Entry)
	if err := json.Unmarshal(append(bytes.Clone(body), '}'), e); err != nil {
		return nil, chain{}, fmt.Errorf("not an entry: %w", err)
	}
	return e, chain{e.Sequence, string(hash)}, nil
}

// follows says what is wrong with e as the entry after at; the zero chain
// takes any entry, which is where a log begins whose older files are gone.
func (at chain) follows(e *Entry) error {
	switch {
	case at == chain{}:
		return nil
	case e.Sequence != at.sequence+1:
		return fmt.Errorf("entry %d stands after entry %d", e.Sequence, at.sequence)
	case e.Previous != at.hash:
		return fmt.Errorf("entry %d was written after another entry %d", e.Sequence, at.sequence)
	}
	return nil
}

package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// format is the one that this package writes and reads. Format 1 was a bbolt
// file, see old.go.
const format = 2

// maxFile is far beyond what the bounds of scopes and history allow.
const maxFile = 64 << 20 // bytes

// A sealed file is a line with the format and a CRC32C of all the rest, and lines
// of JSON.
const (
	sealPrefix = "rdmad settings, "
	sealFormat = sealPrefix + "format %d, CRC32C %08x\n"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is the CRC32C of several texts as one.
func sum(texts ...[]byte) (c uint32) {
	for _, t := range texts {
		c = crc32.Update(c, castagnoli, t)
	}
	return c
}

// errDamaged is wrapped by what is wrong with a file.
var errDamaged = errors.New("damaged")

// errStrange is wrapped by what this rdmad can't read in a file that is as it was written.
var errStrange = errors.New("is from another rdmad, perhaps a newer one")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w (%s)", errDamaged, fmt.Sprintf(format, args...))
}

// NewerError means that the file is from a newer rdmad.
type NewerError struct{ Format int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("is from a newer rdmad (format %d, this one knows %d)", e.Format, format)
}

// seal is a file of lines.
func seal(lines ...[]byte) []byte {
	body := append(bytes.Join(lines, []byte{'\n'}), '\n')
	return append(sealLine(format, body), body...)
}

// sealLine is the first line of a file. Its checksum covers the format too.
func sealLine(version int, body []byte) []byte {
	return fmt.Appendf(nil, sealFormat, version, sum(fmt.Append(nil, version), body))
}

// unseal is seal's inverse.
func unseal(data []byte) ([][]byte, error) {
	var version int
	var found uint32
	n := bytes.IndexByte(data, '\n') + 1
	if _, err := fmt.Sscanf(string(data[:n]), sealFormat, &version, &found); err != nil {
		return nil, damaged("its first line is not one of rdmad's")
	}
	body := data[n:]
	switch {
	case !bytes.Equal(data[:n], sealLine(version, body)):
		return nil, damaged("wrong checksum")
	case version > format:
		return nil, &NewerError{Format: version}
	case version < format || !bytes.HasSuffix(body, []byte{'\n'}):
		return nil, damaged("no lines of format %d", format)
	}
	return bytes.Split(body[:len(body)-1], []byte{'\n'}), nil
}

// readWhole reads a file of bounded size.
func readWhole(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile || !info.Mode().IsRegular() {
		return nil, damaged("not a file of at most %d bytes", maxFile)
	}
	return os.ReadFile(path)
}

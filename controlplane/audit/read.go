package audit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files of a log: the one that is written, and those before it, named after
// their first entry so that their names sort as they were written.
const (
	currentName  = "audit.log"
	olderPrefix  = "audit-"
	olderSuffix  = ".log"
	olderDigits  = 20
	damagePrefix = "audit.damaged-"
)

func olderName(first uint64) string {
	return fmt.Sprintf("%s%0*d%s", olderPrefix, olderDigits, first, olderSuffix)
}

// olderFiles lists the finished files of a directory by name, the oldest
// first.
func olderFiles(dir string) ([]string, error) {
	names, err := filesIn(dir, olderPrefix)
	return slices.DeleteFunc(names, func(n string) bool { return olderName(firstOf(n)) != filepath.Base(n) }), err
}

// filesIn returns the files of a directory whose names begin with a prefix, by name.
func filesIn(dir, prefix string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// scan gives the entries of a file in order until one doesn't follow, or see
// ends it with an error. good is the number of bytes up to there, at the
// place. rest is what was wrong: nil at the file's end.
func scan(r io.Reader, at chain, see func(*Entry) error) (good int64, after chain, rest error) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return good, at, nil
		}
		if err != nil {
			return good, at, err
		}
		e, next, err := parseLine(line)
		if err != nil {
			return good, at, err
		}
		if err := at.follows(e); err != nil {
			return good, at, err
		}
		if err := see(e); err != nil {
			return good, at, err
		}
		good, at = good+int64(len(line)), next
	}
}

var (
	errTorn = errors.New("an entry that was not finished")
	errLong = errors.New("a line that is too long for an entry")
)

// readLine reads to the next line end, of bounded length. At the file's end
// it gives io.EOF, or errTorn within a line.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, errTorn
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		case len(line) > maxLine:
			return line, errLong
		}
	}
}

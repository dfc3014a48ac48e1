package rpcbind

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// transcript reads bytes from testdata: lines of hexadecimal words, with
// comments after more than one space and on lines that begin with #.
func transcript(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(line), " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, b...)
	}
	return out
}

func TestMapping(t *testing.T) {
	m := mapping{program: 100003, version: 3, netid: "rdma", address: "127.0.0.1.78.81", owner: "0"}
	args := transcript(t, "set.txt")
	if got := appendMapping(nil, &m); !bytes.Equal(got, args) {
		t.Errorf("encoded:\n%x\nwant:\n%x", got, args)
	}
	d := xdr.NewDecoder(args)
	if got := decodeMapping(&d); got != m || ended(&d) != nil {
		t.Errorf("decoded: %+v, %v", got, ended(&d))
	}
}

func TestList(t *testing.T) {
	b := transcript(t, "dump.txt")
	list, err := decodeList(b)
	if err != nil || len(list) != 13 {
		t.Fatalf("%d mappings, %v", len(list), err)
	}
	for i, want := range map[int]mapping{
		0:  {100000, 4, "tcp6", "::.0.111", "superuser"},
		6:  {100000, 2, "tcp", "0.0.0.0.0.111", "superuser"},
		11: {100000, 3, "local", "/run/rpcbind.sock", "superuser"},
		12: {100003, 3, "rdma", "127.0.0.1.78.81", "superuser"},
	} {
		if list[i] != want {
			t.Errorf("mapping %d: %+v, want %+v", i, list[i], want)
		}
	}
	if again := appendList(nil, list); !bytes.Equal(again, b) {
		t.Errorf("encoded again:\n%x\nwant:\n%x", again, b)
	}
	for n := range b {
		if _, err := decodeList(b[:n]); !errors.Is(err, xdr.ErrShort) {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func TestListRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"neither more nor not", []byte{0, 0, 0, 2}, xdr.ErrBool},
		{"bytes after the end", make([]byte, 5), errTrailing},
		{"a text longer than all", []byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff}, xdr.ErrLimit},
	} {
		if list, err := decodeList(c.b); !errors.Is(err, c.want) || list != nil {
			t.Errorf("%s: %v, %v, want %v", c.name, list, err, c.want)
		}
	}
}

// FuzzDecodeList decodes what it accepts back from its own encoding, and never
// holds more text than came.
func FuzzDecodeList(f *testing.F) {
	f.Add(transcript(f, "dump.txt"))
	f.Add(appendList(nil, nil))
	f.Add(appendList(nil, []mapping{{}, other}))
	f.Add(transcript(f, "set.txt"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeList(b)
		if err != nil {
			return
		}
		texts := 0
		for _, m := range list {
			texts += len(m.netid) + len(m.address) + len(m.owner)
		}
		if texts > len(b) {
			t.Fatalf("%d bytes of text from %d bytes", texts, len(b))
		}
		again := appendList(nil, list)
		if list2, err := decodeList(again); err != nil || len(again) != len(b) || !bytes.Equal(appendList(nil, list2), again) {
			t.Fatalf("%x became %x, %v", b, again, err)
		}
	})
}

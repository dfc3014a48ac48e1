package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
)

// client is an NBD client of a served disk.
type client struct {
	t *testing.T
	net.Conn
}

func (c client) send(values ...any) {
	c.t.Helper()
	if err := put(c, values...); err != nil {
		c.t.Fatal(err)
	}
}

// want reads bytes and compares them with the encoded values.
func (c client) want(values ...any) {
	c.t.Helper()
	var want bytes.Buffer
	if err := put(&want, values...); err != nil {
		c.t.Fatal(err)
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want.Bytes()) {
		c.t.Fatalf("%x, want %x: %v", got, want.Bytes(), err)
	}
}

func (c client) request(flags, kind uint16, offset uint64, length uint32, data []byte) {
	c.t.Helper()
	c.send(uint32(requestMagic), flags, kind, uint64(7), offset, length, data)
}

func (c client) reply(code uint32, data []byte) {
	c.t.Helper()
	c.want(uint32(simpleMagic), code, uint64(7), data)
}

func serve(t *testing.T, d *Disk) client {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- d.Serve(l) }()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		l.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return client{t, conn}
}

// TestNBD negotiates as QEMU does, and reads, writes and flushes.
func TestNBD(t *testing.T) {
	d := New(4 * sector)
	c := serve(t, d)
	c.want(uint64(nbdMagic), uint64(optionMagic), uint16(fixedNewstyle))
	c.send(uint32(fixedNewstyle))
	c.send(uint64(optionMagic), uint32(8), uint32(3), []byte("abc")) // structured replies, which the disk does not support
	c.want(uint64(replyMagic), uint32(8), uint32(repUnsupported), uint32(0))
	c.send(uint64(optionMagic), uint32(optGo), uint32(6), make([]byte, 6))
	c.want(uint64(replyMagic), uint32(optGo), uint32(repInfo), uint32(12), uint16(0), uint64(4*sector), uint16(hasFlags|sendFlush|sendFUA))
	c.want(uint64(replyMagic), uint32(optGo), uint32(repAck), uint32(0))

	c.request(0, cmdWrite, sector, sector, block('a', sector))
	c.reply(0, nil)
	c.request(0, cmdFlush, 0, 0, nil)
	c.reply(0, nil)
	c.request(flagFUA, cmdWrite, 0, sector, block('b', sector))
	c.reply(0, nil)
	c.request(0, cmdRead, 0, 2*sector, nil)
	c.reply(0, append(block('b', sector), block('a', sector)...))
	c.request(0, cmdRead, 4*sector, 1, nil)
	c.reply(einval, nil)
	c.request(0, cmdWrite, 4*sector, 1, []byte{1})
	c.reply(einval, nil)
	if medium, err := d.After(d.Position(), LoseAll, 0); err != nil || text(medium) != "ba00" {
		t.Errorf("%s, %v", text(medium), err)
	}
	d.Break(func(data []byte) bool { return data[0] == 'x' })
	c.request(0, cmdWrite, 0, sector, block('x', sector))
	c.reply(eio, nil)
	c.request(0, cmdWrite, 0, sector, block('y', sector))
	c.reply(0, nil)
	d.Break(nil)
	c.request(0, cmdRead, 0, sector, nil)
	c.reply(0, block('y', sector))
	c.request(0, cmdDisc, 0, 0, nil)
	if err := binary.Read(c, binary.BigEndian, new(byte)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

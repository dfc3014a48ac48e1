package disk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Constants of the NBD protocol (doc/proto.md in its repository).
const (
	nbdMagic      = 0x4e42444d41474943 // "NBDMAGIC"
	optionMagic   = 0x49484156454f5054 // "IHAVEOPT"
	replyMagic    = 0x3e889045565a9    // to an option
	requestMagic  = 0x25609513
	simpleMagic   = 0x67446698
	fixedNewstyle = 1 << 0 // handshake flag

	optAbort = 2
	optGo    = 7

	repAck         = 1
	repInfo        = 3
	repUnsupported = 1<<31 + 1

	hasFlags  = 1 << 0 // transmission flags
	sendFlush = 1 << 2
	sendFUA   = 1 << 3

	cmdRead  = 0
	cmdWrite = 1
	cmdDisc  = 2
	cmdFlush = 3
	flagFUA  = 1 << 0

	eio    = 5
	einval = 22
	enospc = 28

	maxOption  = 4 << 10
	maxRequest = 32 << 20
)

// Serve lets the machines that connect to l use the disk, one at a time, until
// l is closed. The error is never nil.
func (d *Disk) Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		err = d.serve(conn)
		conn.Close()
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !isReset(err) {
			return err
		}
	}
}

// isReset reports whether the machine was killed while the disk answered it.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// serve serves one connection and returns why it ended.
func (d *Disk) serve(conn net.Conn) error {
	rw := bufio.NewReadWriter(bufio.NewReaderSize(conn, 1<<20), bufio.NewWriterSize(conn, 1<<20))
	if err := d.negotiate(rw); err != nil {
		return err
	}
	for {
		if err := d.request(rw); err != nil {
			return err
		}
	}
}

// negotiate answers options until the client starts the transmission phase.
func (d *Disk) negotiate(rw *bufio.ReadWriter) error {
	send := func(v ...any) error { return errors.Join(put(rw, v...), rw.Flush()) }
	if err := send(uint64(nbdMagic), uint64(optionMagic), uint16(fixedNewstyle)); err != nil {
		return err
	}
	if _, err := rw.Discard(4); err != nil { // the client's flags
		return err
	}
	for {
		var option struct {
			Magic          uint64
			Option, Length uint32
		}
		if err := binary.Read(rw, binary.BigEndian, &option); err != nil {
			return err
		}
		if option.Magic != optionMagic || option.Length > maxOption {
			return fmt.Errorf("disk: not an NBD option: %+v", option)
		}
		if _, err := rw.Discard(int(option.Length)); err != nil {
			return err
		}
		reply := func(kind uint32, data ...any) error {
			length := 0
			for _, v := range data {
				length += binary.Size(v)
			}
			return errors.Join(send(uint64(replyMagic), option.Option, kind, uint32(length)), send(data...))
		}
		switch option.Option {
		case optGo:
			export := []any{uint16(0), uint64(len(d.now)), uint16(hasFlags | sendFlush | sendFUA)}
			return errors.Join(reply(repInfo, export...), reply(repAck))
		case optAbort:
			return errors.Join(reply(repAck), io.EOF)
		}
		if err := reply(repUnsupported); err != nil {
			return err
		}
	}
}

// request handles one request.
func (d *Disk) request(rw *bufio.ReadWriter) error {
	var r struct {
		Magic       uint32
		Flags, Type uint16
		Cookie      uint64
		Offset      int64
		Length      uint32
	}
	if err := binary.Read(rw, binary.BigEndian, &r); err != nil {
		return err
	}
	if r.Magic != requestMagic || r.Length > maxRequest {
		return fmt.Errorf("disk: not an NBD request: %+v", r)
	}
	var data []byte
	var err error
	switch r.Type {
	case cmdRead:
		data = make([]byte, r.Length)
		err = d.read(data, r.Offset)
	case cmdWrite:
		written := make([]byte, r.Length)
		if _, err := io.ReadFull(rw, written); err != nil {
			return err
		}
		err = d.write(written, r.Offset, r.Flags&flagFUA != 0)
	case cmdFlush:
		d.flush()
	case cmdDisc:
		return io.EOF
	default:
		err = errRange
	}
	code := uint32(0)
	switch {
	case errors.Is(err, errFull):
		code, data = enospc, nil
	case errors.Is(err, errBroken):
		code = eio
	case err != nil:
		code, data = einval, nil
	}
	if err := put(rw, uint32(simpleMagic), code, r.Cookie, data); err != nil {
		return err
	}
	return rw.Flush()
}

// put writes values in big-endian byte order.
func put(w io.Writer, values ...any) error {
	for _, v := range values {
		if err := binary.Write(w, binary.BigEndian, v); err != nil {
			return err
		}
	}
	return nil
}

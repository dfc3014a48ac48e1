package siege

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"

	"github.com/rdmad/rdmad/rpcrdma/wire"
)

// Opcodes of RDMAP (RFC 5040 §4.1).
const (
	opWrite = iota
	opReadRequest
	opReadResponse
	opSend
)

// Sizes of iWARP's headers, in bytes.
const (
	mpaHeader      = 20 // RFC 5044 §7.1.1
	taggedHeader   = 14 // RFC 5041 §4.2
	untaggedHeader = 18 // RFC 5041 §4.3
	maxSegment     = 32 << 10
)

// peer is an iWARP connection that can send anything.
type peer struct {
	conn *net.TCPConn
	in   *bufio.Reader
	crc  bool
	msn  uint32 // of the last Send
	xid  uint32
	buf  []byte // of receive
}

// mpaRequest is the request of an ordinary client (RFC 5044 §7.1.1, RFC 6581).
func mpaRequest() []byte {
	const revision, enhanced, depth = 2, 0x10, 16
	private := wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)
	b := append([]byte("MPA ID Req Frame"), enhanced, revision)
	b = binary.BigEndian.AppendUint16(b, uint16(4+len(private)))
	b = binary.BigEndian.AppendUint16(b, depth)
	b = binary.BigEndian.AppendUint16(b, depth)
	return append(b, private...)
}

// newPeer makes an iWARP connection of a TCP connection.
func newPeer(conn *net.TCPConn) (*peer, error) {
	const reject, crc = 0x20, 0x40
	if _, err := conn.Write(mpaRequest()); err != nil {
		return nil, err
	}
	// Small, so that a peer that stops reading stops at once.
	p := &peer{conn: conn, in: bufio.NewReaderSize(conn, 4096), xid: 1}
	b := make([]byte, mpaHeader)
	if _, err := io.ReadFull(p.in, b); err != nil {
		return nil, err
	}
	if b[16]&reject != 0 {
		return nil, errors.New("rejected")
	}
	p.crc = b[16]&crc != 0
	_, err := p.in.Discard(int(binary.BigEndian.Uint16(b[18:])))
	return p, err
}

// dialPeer connects and makes an iWARP connection.
func dialPeer(ctx context.Context, from net.IP, address string) (*peer, error) {
	conn, err := dial(ctx, from, address)
	if err != nil {
		return nil, err
	}
	p, err := newPeer(conn)
	if err != nil {
		conn.Close()
	}
	return p, err
}

// fpdu is an FPDU (RFC 5044 §4.1) around a segment's header and payload.
func (p *peer) fpdu(header, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(header)+len(payload)))
	b = append(append(b, header...), payload...)
	b = append(b, make([]byte, -len(b)&3)...)
	var sum uint32
	if p.crc {
		sum = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	}
	return binary.LittleEndian.AppendUint32(b, sum)
}

// sendFPDU is the FPDU of the next Send, of one segment.
func (p *peer) sendFPDU(payload []byte) []byte {
	p.msn++
	h := []byte{0x41, 0x40 | opSend}
	for _, v := range []uint32{0, 0, p.msn, 0} { // reserved, queue, MSN, offset
		h = binary.BigEndian.AppendUint32(h, v)
	}
	return p.fpdu(h, payload)
}

func (p *peer) send(payload []byte) error {
	_, err := p.conn.Write(p.sendFPDU(payload))
	return err
}

// receive gives the next segment: its opcode and its payload, which is good
// until the next call.
func (p *peer) receive() (op byte, payload []byte, err error) {
	var size [2]byte
	if _, err := io.ReadFull(p.in, size[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	whole := n + (-(2 + n) & 3) + 4
	if cap(p.buf) < whole {
		p.buf = make([]byte, 1<<16+8)
	}
	b := p.buf[:whole]
	if _, err := io.ReadFull(p.in, b); err != nil {
		return 0, nil, err
	}
	header := untaggedHeader
	if n > 0 && b[0]&0x80 != 0 {
		header = taggedHeader
	}
	if n < header {
		return 0, nil, fmt.Errorf("a segment of %d bytes", n)
	}
	return b[1] & 0x0f, b[header:n], nil
}

// readRequest is an RDMA Read Request of rdmad (RFC 5040 §4.4).
type readRequest struct {
	sink uint32
	at   uint64
	size int
}

func decodeReadRequest(b []byte) (r readRequest, err error) {
	if len(b) < 28 {
		return r, fmt.Errorf("a Read Request of %d bytes", len(b))
	}
	return readRequest{sink: binary.BigEndian.Uint32(b), at: binary.BigEndian.Uint64(b[4:]), size: int(binary.BigEndian.Uint32(b[12:]))}, nil
}

// response returns the FPDUs that answer a Read Request.
func (p *peer) response(r readRequest) (b []byte) {
	data := make([]byte, min(r.size, maxSegment))
	for done := 0; ; {
		n := min(r.size-done, maxSegment)
		control := byte(0x81)
		if done+n == r.size {
			control |= 0x40
		}
		h := binary.BigEndian.AppendUint32([]byte{control, 0x40 | opReadResponse}, r.sink)
		h = binary.BigEndian.AppendUint64(h, r.at+uint64(done))
		b = append(b, p.fpdu(h, data[:n])...)
		if done += n; done == r.size {
			return b
		}
	}
}

package siege

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/rpcrdma/wire"
)

// maxSegment is the largest payload of a sent segment, in bytes.
const maxSegment = 32 << 10

// peer is an iWARP connection that can send anything.
type peer struct {
	conn *net.TCPConn
	in   *bufio.Reader
	msn  uint32 // of the last Send
	xid  uint32
	buf  []byte // for receive
}

// mpaRequest returns the MPA request of an ordinary client (RFC 5044 §7.1.1,
// RFC 6581).
func mpaRequest() []byte {
	const revision, depth = 2, 16
	private := wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil)
	b := append([]byte(iwarp.MPARequest), iwarp.MPAEnhanced, revision)
	b = binary.BigEndian.AppendUint16(b, uint16(4+len(private)))
	b = binary.BigEndian.AppendUint16(b, depth)
	b = binary.BigEndian.AppendUint16(b, depth)
	return append(b, private...)
}

// newPeer makes an iWARP connection on a TCP connection.
func newPeer(conn *net.TCPConn) (*peer, error) {
	if _, err := conn.Write(mpaRequest()); err != nil {
		return nil, err
	}
	// The buffer is small, so that a peer that stops reading stops at once.
	p := &peer{conn: conn, in: bufio.NewReaderSize(conn, 4096), xid: 1}
	b := make([]byte, iwarp.MPAFrameSize)
	if _, err := io.ReadFull(p.in, b); err != nil {
		return nil, err
	}
	if b[16]&iwarp.MPAReject != 0 {
		return nil, errors.New("rejected")
	}
	_, err := p.in.Discard(int(binary.BigEndian.Uint16(b[18:])))
	return p, err
}

// dialPeer connects by TCP and makes an iWARP connection.
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

// sendFPDU returns the FPDU of the next Send, which has one segment.
func (p *peer) sendFPDU(payload []byte) []byte {
	p.msn++
	u := append(iwarp.AppendUntagged(nil, iwarp.OpSend, true, 0, iwarp.QueueSend, p.msn, 0), payload...)
	return iwarp.AppendFPDU(nil, u, len(u))
}

func (p *peer) send(payload []byte) error {
	_, err := p.conn.Write(p.sendFPDU(payload))
	return err
}

// receive returns the opcode and the payload of the next segment. The payload
// is valid until the next call.
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
	header := iwarp.UntaggedSize
	if n > 0 && b[0]&iwarp.Tagged != 0 {
		header = iwarp.TaggedSize
	}
	if n < header {
		return 0, nil, fmt.Errorf("a segment of %d bytes", n)
	}
	if op = b[1] & 0x0f; op == iwarp.OpReadRequest && n < header+iwarp.ReadRequestSize {
		return 0, nil, fmt.Errorf("a Read Request of %d bytes", n-header)
	}
	return op, b[header:n], nil
}

// response returns the FPDUs of the response to a Read Request.
func (p *peer) response(r iwarp.ReadRequest) (b []byte) {
	size := int(r.Size)
	data := make([]byte, min(size, maxSegment))
	for done := 0; ; {
		n := min(size-done, maxSegment)
		u := iwarp.AppendTagged(nil, iwarp.OpReadResponse, done+n == size, r.SinkTag, r.Sink+uint64(done))
		u = append(u, data[:n]...)
		b = iwarp.AppendFPDU(b, u, len(u))
		if done += n; done == size {
			return b
		}
	}
}

package softiwarp

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
)

var (
	errMarkers  = errors.New("peer requires MPA markers")
	errCrowded  = errors.New("too many handshakes of this address, or of all")
	errGone     = errors.New("peer closed the connection before its turn")
	errIRD      = errors.New("peer wants to read more at once than this side takes")
	errNoRTR    = errors.New("peer chose no ready-to-receive indication that was offered")
	errEnhanced = errors.New("reply is not of the request's MPA revision")
)

// readFrame reads exactly one MPA frame from conn.
func readFrame(conn *net.TCPConn, kind mpa.Kind) (mpa.Frame, error) {
	b := make([]byte, mpa.FrameHeaderSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		return mpa.Frame{}, fmt.Errorf("MPA header: %w", err)
	}
	size, err := mpa.FrameSize(kind, b)
	if err != nil {
		return mpa.Frame{}, err
	}
	b = append(make([]byte, 0, size), b...)[:size]
	if _, err := io.ReadFull(conn, b[mpa.FrameHeaderSize:]); err != nil {
		return mpa.Frame{}, fmt.Errorf("MPA private data: %w", err)
	}
	frame, _, err := mpa.DecodeFrame(kind, b)
	return frame, err
}

func writeFrame(conn *net.TCPConn, f *mpa.Frame) error {
	b, err := f.Append(nil)
	if err != nil {
		return err
	}
	_, err = conn.Write(b)
	return err
}

// requestFrame returns the active side's request.
func (p *Provider) requestFrame(c *rdmacm.ConnParam) *mpa.Frame {
	f := &mpa.Frame{
		Kind:        mpa.Request,
		Revision:    uint8(p.config.MPARevision),
		CRC:         p.config.CRC,
		PrivateData: c.PrivateData,
	}
	if f.Revision == mpa.Revision2 {
		f.Enhanced = true
		f.EnhancedData = mpa.Enhanced{IRD: uint16(c.ResponderResources), ORD: uint16(c.InitiatorDepth)}
		if !p.config.ClientServer {
			f.EnhancedData.PeerToPeer = true
			f.EnhancedData.RTR = mpa.RTRSend | mpa.RTRWrite | mpa.RTRRead
		}
	}
	return f
}

// replyFrame returns the passive side's acceptance of req. It uses req's revision,
// because Linux resets a connection whose reply has another one.
func (p *Provider) replyFrame(req *mpa.Frame, c *rdmacm.ConnParam) *mpa.Frame {
	f := &mpa.Frame{
		Kind:        mpa.Reply,
		Revision:    req.Revision,
		CRC:         req.CRC || p.config.CRC,
		Enhanced:    req.Enhanced,
		PrivateData: c.PrivateData,
	}
	if !req.Enhanced {
		return f
	}
	ird, ord := driver.Negotiate(*c, peerParam(req))
	if req.EnhancedData.IRD > 0 {
		// Linux takes our ORD as its own IRD. With 0, every Read would fail.
		ord = max(ord, 1)
	}
	f.EnhancedData = mpa.Enhanced{IRD: uint16(ird), ORD: uint16(ord)}
	if req.EnhancedData.PeerToPeer {
		f.EnhancedData.PeerToPeer = true
		f.EnhancedData.RTR = req.EnhancedData.RTR.Choose()
	}
	if f.EnhancedData.RTR == mpa.RTRRead {
		// The peer sends no more Reads than this, and the indication is one.
		f.EnhancedData.IRD = max(f.EnhancedData.IRD, 1)
	}
	return f
}

// rejection returns the passive side's rejection of req.
func rejection(req *mpa.Frame, privateData []byte) *mpa.Frame {
	return &mpa.Frame{
		Kind:        mpa.Reply,
		Revision:    req.Revision,
		CRC:         req.CRC,
		Reject:      true,
		Enhanced:    req.Enhanced,
		PrivateData: privateData,
	}
}

// peerParam returns the parameters of a frame's sender. A frame of MPA revision 1 has no
// depths. Both sides then rely on depths that their consumers agreed on by other means
// (RFC 5044 §7.1).
func peerParam(f *mpa.Frame) rdmacm.ConnParam {
	p := rdmacm.ConnParam{PrivateData: f.PrivateData}
	if f.Enhanced {
		p.ResponderResources = int(f.EnhancedData.IRD)
		p.InitiatorDepth = int(f.EnhancedData.ORD)
	}
	return p
}

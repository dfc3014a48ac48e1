// Package rpctcptest has sockets for tests of servers of ONC RPC over TCP.
package rpctcptest

import "net"

// EndingListener accepts connections that report to Ended when their sending side is closed. Their
// sockets take long replies that the client does not read yet. Ended needs room for two reports of
// each connection: CloseWrite and Close make one each.
type EndingListener struct {
	net.Listener
	Ended chan struct{}
}

// Accept implements net.Listener.
func (l EndingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp := nc.(*net.TCPConn)
	return endingConn{tcp, l.Ended}, tcp.SetWriteBuffer(1 << 20)
}

type endingConn struct {
	*net.TCPConn
	ended chan struct{}
}

func (c endingConn) CloseWrite() error {
	defer func() { c.ended <- struct{}{} }()
	return c.TCPConn.CloseWrite()
}

func (c endingConn) Close() error {
	defer func() { c.ended <- struct{}{} }()
	return c.TCPConn.Close()
}

package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// unreachable distinguishes, by grpc's error, a missing daemon, a wrong
// address, a TLS problem, a daemon that hangs and one that went away.
func (a *app) unreachable(text string) string {
	if strings.HasPrefix(text, "etcd: ") { // rdmad answers: the rest is about its own connection
		return text
	}
	said, dialing := strings.CutPrefix(text, "connection error: desc = ")
	said = strings.Trim(said, `"`)
	if dialing && gaveUp(said) {
		return a.late(a.timeout)
	}
	if a.tls.Cert != "" {
		if trouble := a.tlsTrouble(said); trouble != "" {
			return trouble
		}
	}
	switch {
	case dialing && cutOff(said):
		return fmt.Sprintf("rdmad at %s ended the connection at once: was it stopped, or does it need TLS (--tls-cert, --tls-key and --tls-ca)?", a.addr)
	case dialing && strings.HasPrefix(a.addr, "unix:") && strings.HasSuffix(said, "permission denied"):
		return fmt.Sprintf("you may not open %s: use sudo, or become a member of the socket's group (ls -l shows it)", a.addr)
	case dialing, strings.HasPrefix(text, "name resolver error:"):
		cause := said[strings.LastIndex(said, ": ")+1:]
		return fmt.Sprintf("rdmad is not reachable at %s: is it running? set --addr or RDMACTL_ADDR (%s)", a.addr, strings.TrimSpace(cause))
	case vanished(text):
		return fmt.Sprintf("rdmad at %s does not answer any more: does it hang, or is its machine gone?", a.addr)
	case cutOff(said):
		return fmt.Sprintf("rdmad at %s went away: was it stopped?", a.addr)
	}
	return text
}

// late says that rdmad took longer than this to answer.
func (a *app) late(than time.Duration) string {
	return fmt.Sprintf("rdmad at %s did not answer within %s: is it overloaded? set --timeout", a.addr, than)
}

// gaveUp says whether grpc waited in vain for an answer on a connection that it then closed itself.
func gaveUp(said string) bool {
	return strings.HasSuffix(said, net.ErrClosed.Error()) || strings.HasSuffix(said, "handshake failed: "+context.DeadlineExceeded.Error())
}

// vanished says whether grpc ended a connection because rdmad did not answer on it for pingTime.
func vanished(text string) bool { return strings.HasPrefix(text, "keepalive ping failed") }

// cutOff says whether the other side ended the connection.
func cutOff(said string) bool {
	return slices.ContainsFunc([]string{"EOF", "broken pipe", "connection reset", "use of closed network connection"},
		func(how string) bool { return strings.Contains(said, how) })
}

// tlsTrouble is what went wrong with a handshake; "" for nothing.
func (a *app) tlsTrouble(said string) string {
	detail := said
	if at := strings.LastIndex(said, "tls: "); at >= 0 {
		detail = said[at+len("tls: "):]
	}
	detail = strings.TrimPrefix(detail, "failed to verify certificate: ")
	switch {
	case strings.Contains(said, "first record does not look like a TLS handshake"):
		return fmt.Sprintf("rdmad at %s has no TLS: remove --tls-cert and RDMACTL_TLS_CERT, or is --addr wrong?", a.addr)
	case strings.Contains(said, "unknown authority"):
		from := "the system's CAs: set --tls-ca"
		if a.tls.CA != "" {
			from = "those of --tls-ca " + a.tls.CA
		}
		return fmt.Sprintf("rdmad's certificate at %s is from another CA than %s (%s)", a.addr, from, detail)
	case strings.Contains(said, "x509: certificate is"), strings.Contains(said, "x509: cannot validate certificate for"):
		return fmt.Sprintf("rdmad's certificate at %s is for another name: set --tls-server-name, or --addr (%s)", a.addr, detail)
	case strings.Contains(said, "x509: "):
		return fmt.Sprintf("rdmad's certificate at %s is not valid (%s)", a.addr, detail)
	case strings.Contains(said, "remote error: tls: "):
		return a.refused(" (" + detail + ")")
	case cutOff(said) && !strings.HasPrefix(said, "error reading from server:"):
		return a.refused(" Or was rdmad stopped?")
	}
	return ""
}

// refused says that rdmad doesn't take the client's certificate. It says why
// if it can.
func (a *app) refused(detail string) string {
	if pair, err := tls.LoadX509KeyPair(a.tls.Cert, a.tls.Key); err == nil && time.Now().After(pair.Leaf.NotAfter) {
		return fmt.Sprintf("rdmad at %s refused the certificate %s: it expired on %s", a.addr, a.tls.Cert, pair.Leaf.NotAfter.Local().Format(time.DateTime))
	}
	return fmt.Sprintf("rdmad at %s refused the certificate %s: is it from rdmad's control.tls.client_ca, and does it have a name?%s", a.addr, a.tls.Cert, detail)
}

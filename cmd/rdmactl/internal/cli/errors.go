package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// usageError is a command line that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// explain says in one line what went wrong and what to do.
func (a *app) explain(err error) string {
	st, ok := status.FromError(err)
	if !ok {
		return oneLine(err.Error())
	}
	text := oneLine(st.Message())
	switch st.Code() {
	case codes.Unavailable:
		return a.unreachable(text)
	case codes.DeadlineExceeded:
		return fmt.Sprintf("rdmad at %s did not answer within %s: is it overloaded? set --timeout", a.addr, a.timeout)
	case codes.NotFound:
		return text + hint(text)
	case codes.Aborted:
		return text + " (rdmactl settings get)"
	case codes.Unimplemented:
		if reason(st) == "" {
			return fmt.Sprintf("rdmad at %s doesn't know this request: is it older than rdmactl? (%s)", a.addr, text)
		}
	case codes.ResourceExhausted:
		if reason(st) == rdmadv1.ErrorReason_ERROR_REASON_SLOW_READER.String() {
			return "rdmad ended the stream because it was read too slowly: run the command again"
		}
	case codes.Internal, codes.Unknown:
		return fmt.Sprintf("rdmad at %s failed: %s", a.addr, text)
	}
	return text
}

// unreachable tells no daemon, a wrong address and a daemon that went away
// apart.
func (a *app) unreachable(text string) string {
	switch {
	case strings.Contains(text, "tls: "), strings.Contains(text, "authentication handshake failed"):
		return fmt.Sprintf("no TLS with rdmad at %s: check --tls-cert, --tls-key, --tls-ca and --server-name (%s)",
			a.addr, strings.Trim(strings.TrimPrefix(text, "connection error: desc = "), `"`))
	case strings.HasPrefix(text, "connection error:"), strings.HasPrefix(text, "name resolver error:"):
		cause := text[strings.LastIndex(text, ": ")+2:]
		return fmt.Sprintf("rdmad is not reachable at %s: is it running? set --addr or RDMACTL_ADDR (%s)",
			a.addr, strings.Trim(cause, `"`))
	case strings.HasPrefix(text, "error reading from server:"):
		return fmt.Sprintf("rdmad at %s went away: was it stopped?", a.addr)
	}
	return text
}

// hint says where to look for what wasn't found.
func hint(text string) string {
	switch {
	case strings.Contains(text, "listener"):
		return " (rdmactl listeners list)"
	case strings.Contains(text, "connection"):
		return " (rdmactl connections list)"
	}
	return ""
}

// reason of the status's google.rpc.ErrorInfo, "" when there is none.
func reason(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// ended says whether a stream ended because the user ended it.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled)
}

// oneLine is text without line ends and control characters.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return -1
		}
		return r
	}, s)
}

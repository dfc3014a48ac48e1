package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	"github.com/rdmad/rdmad/controlplane/configfile"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// usageError is a command line that makes no sense.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// explain says what went wrong and what to do, in one line unless several
// fields of a request are wrong.
func (a *app) explain(err error) string {
	if mistakes, ok := errors.AsType[configfile.Errors](err); ok {
		lines := make([]string, len(mistakes))
		for i, one := range mistakes {
			lines[i] = terminal.OneLine(one.Error())
		}
		return listed(lines)
	}
	st, ok := status.FromError(err)
	if !ok {
		return terminal.OneLine(err.Error())
	}
	text := terminal.OneLine(st.Message())
	switch st.Code() {
	case codes.Unavailable:
		return a.unreachable(text)
	case codes.DeadlineExceeded:
		return a.late(cmp.Or(a.allowed, a.timeout))
	case codes.Canceled:
		return "interrupted"
	case codes.InvalidArgument:
		return a.violations(st, text)
	case codes.FailedPrecondition: // an import lists all reasons
		if lines := a.violations(st, ""); lines != "" {
			return lines
		}
	case codes.PermissionDenied:
		if metadata(st)["role"] == rdmadv1.Role_ROLE_UNSPECIFIED.String() { // it may not call status
			return "permission denied: " + text + " (an admin gives roles with control.roles in the configuration)"
		}
		return "permission denied: " + text + " (rdmactl status shows your identity and role)"
	case codes.NotFound:
		return text + hint(text)
	case codes.Unimplemented:
		if reason(st) == "" {
			return fmt.Sprintf("rdmad at %s does not know this request: is it older than rdmactl? (%s)", a.addr, text)
		}
	case codes.ResourceExhausted:
		if reason(st) == rdmadv1.ErrorReason_ERROR_REASON_SLOW_READER.String() {
			return "rdmad ended the stream because rdmactl read it too slowly: run the command again"
		}
	case codes.Internal, codes.Unknown:
		if strings.HasPrefix(text, "grpc: error while marshaling: ") && strings.HasSuffix(text, "invalid UTF-8") {
			return "a file or an argument has bytes that are not text in UTF-8" // nothing was sent
		}
		return fmt.Sprintf("rdmad at %s failed: %s", a.addr, text)
	}
	return text + remedy(st)
}

// remedy is what to do about an error of a known reason.
func remedy(st *status.Status) string {
	switch meta := metadata(st); reason(st) {
	case rdmadv1.ErrorReason_ERROR_REASON_STALE_REVISION.String():
		return fmt.Sprintf(" (rdmactl settings get, then --revision %s)", terminal.OneLine(meta["current_revision"]))
	case rdmadv1.ErrorReason_ERROR_REASON_UNCONFIRMED.String():
		back := "rdmactl settings history lists revisions for a rollback"
		if n, err := strconv.ParseUint(meta["revision"], 10, 32); err == nil && n > 0 {
			back = fmt.Sprintf("rdmactl settings rollback %d", n-1)
		}
		if meta["by_fleet"] == strconv.FormatBool(true) {
			return " (" + back + ")"
		}
		return " (rdmactl settings confirm, or " + back + ")"
	case rdmadv1.ErrorReason_ERROR_REASON_IN_USE.String():
		return " (rdmactl listeners remove)"
	case rdmadv1.ErrorReason_ERROR_REASON_SETTING_UNAVAILABLE.String():
		return " (rdmactl extensions list has all extensions)"
	}
	return ""
}

// violations lists the fields of a request that are wrong, as the command
// line names them.
func (a *app) violations(st *status.Status, text string) string {
	all := detail[*errdetails.BadRequest](st).GetFieldViolations()
	if len(all) == 0 {
		return text
	}
	lines := make([]string, len(all))
	for i, v := range all {
		line := terminal.OneLine(v.GetDescription())
		if strings.Contains(line, "regex pattern") { // names alone have one
			line = "must be letters, digits, dots, dashes and underscores, at most 63, and begin with a letter or digit"
		}
		if flag, ok := noFlag(line); ok {
			line = flag
		} else if name := a.argument(terminal.OneLine(v.GetField())); name != "" {
			line = name + ": " + line
		}
		lines[i] = line
	}
	return listed(lines)
}

// noFlag is what rdmad says of a field that something does not have, with flags in place of
// the fields of a request.
func noFlag(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, `there is no field "`)
	field, known, both := strings.Cut(rest, `"; there are `)
	if !ok || !both {
		return "", false
	}
	text = "there is no --" + flagNames([]string{field})[0] + " to change"
	if known == "" {
		return text + ", nor anything else", true
	}
	return text + "; there are --" + strings.Join(flagNames(strings.Split(known, ", ")), ", --"), true
}

// listed are the lines of an error that may have several.
func listed(lines []string) string {
	if len(lines) == 1 {
		return lines[0]
	}
	return fmt.Sprintf("%d errors:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// arguments are request fields by what the command line calls them, where
// that isn't the same.
var arguments = map[string]string{
	"name": "NAME", "names": "NAME", "id": "ID", "keys": "KEY", "key": "KEY", "unset": "KEY", "nfs": "NAME", "forward": "NAME",
}

// otherFlags are the flags of request fields that do not have the field's name.
var otherFlags = map[string]string{"waves[0]": "canary", "max_errors_per_second": "max-errors", "max_p99_ratio": "max-p99"}

// unsets says whether the command that runs gives fields the values of the configuration file back.
func (a *app) unsets() bool { return a.command != nil && a.command.Name() == "unset" }

// fieldFlags are those of the command that runs. "unset" has none for fields: it names them as the flags of
// the command beside it that sets them.
func (a *app) fieldFlags() *pflag.FlagSet {
	if a.unsets() {
		if set, _, err := a.command.Parent().Find([]string{"set"}); err == nil {
			return set.Flags()
		}
	}
	return a.command.Flags()
}

// argument is what the command line calls a request's field, "" if the text about it says that.
// A flag has the name of its field, without some of the messages that the field is in.
func (a *app) argument(field string) string {
	end := strings.IndexByte(field+"[", '[')
	path, rest := field[:end], field[end:]
	name, inner, _ := strings.Cut(path, ".")
	switch {
	case name == "scopes" || name == "base":
		return "FILE: " + field
	case field == "unset" || field == "update_mask": // as a whole
		return ""
	case name == "unset" && a.unsets(): // its last argument, [FIELD...]
		return strings.Trim(a.command.Use[strings.LastIndexByte(a.command.Use, ' ')+1:], "[.]")
	case arguments[path] != "":
		return arguments[path]
	}
	for within := path; within != "" && a.command != nil; _, within, _ = strings.Cut(within, ".") {
		flag := a.fieldFlags().Lookup(cmp.Or(otherFlags[within+rest], strings.NewReplacer("_", "-", ".", "-").Replace(within)))
		switch {
		case flag == nil:
		case flag.Value.Type() == typeItems:
			return "--" + flag.Name + rest
		default:
			return "--" + flag.Name
		}
	}
	if name == "settings" {
		return inner + rest
	}
	return field
}

// hint says where to look for what wasn't found. rdmad says first what it is; names may have the same words.
func hint(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "no "), "way back to ")
	for _, h := range []struct{ word, command string }{
		{"service", "services list"},
		{"connector", "connectors list"},
		{"listener", "listeners list"},
		{"revision", "settings history"},
		{"connection", "connections list"},
	} {
		if strings.HasPrefix(text, h.word) {
			return " (rdmactl " + h.command + ")"
		}
	}
	return ""
}

// detail is the status's detail of a type, nil when there is none.
func detail[D any](st *status.Status) (found D) {
	for _, d := range st.Details() {
		if one, ok := d.(D); ok {
			return one
		}
	}
	return found
}

func reason(st *status.Status) string { return detail[*errdetails.ErrorInfo](st).GetReason() }

func metadata(st *status.Status) map[string]string {
	return detail[*errdetails.ErrorInfo](st).GetMetadata()
}

// ended says whether a stream ended because the user ended it.
func ended(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled)
}

package nfs

import (
	"context"
	"log/slog"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// request is a call being carried out. It is used again for later calls, so
// that calls don't allocate.
type request struct {
	srv   *Server
	ctx   context.Context
	call  *oncrpc.Call
	reply *oncrpc.Reply
	args  xdr.Decoder
	cred  cred
	sys   oncrpc.AuthSys
	st    unix.Stat_t
	pre   unix.Stat_t
	data  [][]byte // of a WRITE
	// name is the one that the call is about, other the second one of RENAME.
	name, other posix.Name
}

// procedure decodes its arguments, does its work and appends its results. Its
// error answers the call in place of results: it is about the call as such.
type procedure func(r *request) error

// procedureCount is the number of procedures of NFS version 3.
const procedureCount = 22

// procedures of NFS version 3, by number (RFC 1813 §3).
var procedures = [procedureCount]procedure{
	0:  func(*request) error { return nil },
	1:  (*request).getattr,
	2:  (*request).setattr,
	3:  (*request).lookup,
	4:  (*request).access,
	5:  (*request).readlink,
	6:  (*request).read,
	7:  (*request).write,
	8:  (*request).create,
	9:  (*request).mkdir,
	10: (*request).symlink,
	11: (*request).mknod,
	12: (*request).remove,
	13: (*request).rmdir,
	14: (*request).rename,
	15: (*request).link,
	16: (*request).readdir,
	17: (*request).readdirplus,
	18: (*request).fsstat,
	19: (*request).fsinfo,
	20: (*request).pathconf,
	21: (*request).commit,
}

// procedureNames for the log.
var procedureNames = [procedureCount]string{
	"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
	"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
}

// once marks the procedures whose effect must not happen twice: a call that is
// sent again gets the first one's reply.
var once = [procedureCount]bool{2: true, 8: true, 9: true, 10: true, 11: true, 12: true, 13: true, 14: true, 15: true}

// Errors of calls as such, made once.
var (
	errGarbage     = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	errProcUnavail = &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	errProgUnavail = &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	errVersion     = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: Version, High: Version}
)

// serveNFS carries out a call of program NFS.
func (s *Server) serveNFS(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	switch {
	case call.Version != Version:
		return errVersion
	case call.Procedure >= procedureCount:
		return errProcUnavail
	case call.Procedure == 0:
		return nil
	}
	r := s.requests.Get().(*request)
	r.ctx, r.call, r.reply = ctx, call, reply
	r.args = xdr.NewDecoder(call.Args.Stream)
	err := r.serve()
	r.ctx, r.call, r.reply, r.args = nil, nil, nil, xdr.Decoder{}
	clear(r.data)
	s.requests.Put(r)
	return err
}

func (r *request) serve() error {
	if err := r.setCred(); err != nil {
		return err
	}
	if !once[r.call.Procedure] {
		return procedures[r.call.Procedure](r)
	}
	return r.srv.replies.serve(r)
}

// handle decodes an nfs_fh3.
func (r *request) handle() []byte { return r.call.Args.Opaque(&r.args, fh.MaxSize) }

// opaque decodes a name or a path, wherever the transport put it.
func (r *request) opaque() []byte { return r.call.Args.Opaque(&r.args, maxOpaque) }

// maxOpaque bounds names and paths before their own checks, for which there
// are statuses.
const maxOpaque = 1 << 16

// decoded answers a call whose arguments can't be decoded.
func (r *request) decoded() error {
	if r.args.Err() != nil || !r.call.Args.Claimed() {
		return errGarbage
	}
	return nil
}

// begin starts the results with the status of err. It says whether they are
// those of success.
func (r *request) begin(err error) bool {
	status, known := statusOf(err)
	if !known {
		r.tell(err)
	}
	r.reply.Stream = xdr.AppendUint32(r.reply.Stream, uint32(status))
	return status == nfsv3.NFS3_OK
}

// tell logs an error that has no status.
func (r *request) tell(err error) {
	r.srv.log.Error("NFS call failed in an unforeseen way",
		slog.String("procedure", procedureNames[r.call.Procedure]), slog.String("peer", r.call.Peer.String()), slog.Any("error", err))
}

// writable answers errROFS when the export may not be changed.
func (r *request) writable() error {
	if r.srv.cfg.ReadOnly {
		return errROFS
	}
	return nil
}

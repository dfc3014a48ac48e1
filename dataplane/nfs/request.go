package nfs

import (
	"context"
	"log/slog"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// request is a call being executed. It is reused for later calls, so that calls do not
// allocate.
type request struct {
	srv *subtree
	// options are those of the export for the caller.
	options *Options
	ctx     context.Context
	call    *oncrpc.Call
	reply   *oncrpc.Reply
	args    xdr.Decoder
	cred    cred
	sys     oncrpc.AuthSys
	st      unix.Stat_t
	pre     unix.Stat_t
	data    [][]byte // of a WRITE
	inside  bool     // counted in the export's crowd
	// name is the name of the call, other the second one of RENAME.
	name, other posix.Name
}

// procedure is a procedure of NFS version 3.
type procedure struct {
	// run decodes the arguments, does the work and appends the results. An error answers the
	// call instead of results. It concerns the call itself.
	run func(r *request) error
	// once means that it must not be executed twice: a repeated call gets the first reply.
	once bool
	// absent is the number of words after the status of a failed call: attributes that are
	// not there.
	absent uint8
}

// procedureCount is the number of procedures of NFS version 3.
const procedureCount = 22

// procedures of NFS version 3, by number (RFC 1813 §3). Procedure 0 does nothing.
var procedures = [procedureCount]procedure{
	1:  {(*request).getattr, false, 0},
	2:  {(*request).setattr, true, 2},
	3:  {(*request).lookup, false, 1},
	4:  {(*request).access, false, 1},
	5:  {(*request).readlink, false, 1},
	6:  {(*request).read, false, 1},
	7:  {(*request).write, false, 2},
	8:  {(*request).create, true, 2},
	9:  {(*request).mkdir, true, 2},
	10: {(*request).symlink, true, 2},
	11: {(*request).mknod, true, 2},
	12: {(*request).remove, true, 2},
	13: {(*request).rmdir, true, 2},
	14: {(*request).rename, true, 4},
	15: {(*request).link, true, 3},
	16: {(*request).readdir, false, 1},
	17: {(*request).readdirplus, false, 1},
	18: {(*request).fsstat, false, 1},
	19: {(*request).fsinfo, false, 1},
	20: {(*request).pathconf, false, 1},
	21: {(*request).commit, false, 2},
}

// procedureNames for the log.
var procedureNames = programs.All[programs.Find(Program, Version)].Procedures

// Errors of calls as such, made once.
var (
	errGarbage     = &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	errProcUnavail = &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	errProgUnavail = &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	errVersion     = &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: Version, High: Version}
)

// serveNFS executes a call of program NFS.
func (s *Server) serveNFS(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	switch {
	case call.Version != Version:
		return errVersion
	case call.Procedure >= procedureCount:
		return errProcUnavail
	case call.Procedure == 0:
		return nil
	}
	tree, options, absent := s.enter(call)
	if tree == nil {
		refuse(call, reply, absent)
		return nil
	}
	defer tree.life.RUnlock()
	r := s.requests.Get().(*request)
	if r.inside = tree.export.crowd.enter(ctx); !r.inside {
		return ctx.Err() // its client is gone
	}
	ended := false
	defer func() {
		if !ended && r.inside { // after a panic r is not used again
			tree.export.crowd.leave()
		}
	}()
	r.srv, r.options, r.ctx, r.call, r.reply = tree, options, ctx, call, reply
	r.args = xdr.NewDecoder(call.Args.Stream)
	err := r.serve()
	if ended = true; r.inside {
		tree.export.crowd.leave()
	}
	r.srv, r.options, r.ctx, r.call, r.reply, r.args = nil, nil, nil, nil, nil, xdr.Decoder{}
	clear(r.data)
	s.requests.Put(r)
	return err
}

// enter finds the subtree and the options for a call. The caller must release the subtree's
// life. Without a subtree absent is the answer.
func (s *Server) enter(call *oncrpc.Call) (tree *subtree, options *Options, absent statusError) {
	if e := s.exportOf(call); e != nil {
		if options = e.optionsFor(call.Peer.Addr()); options == nil {
			return nil, nil, errStale
		}
		return e.enter(), options, e.absent()
	}
	// The handle is of no export, or malformed, or of an export that was not mounted since
	// the start.
	absent = errStale
	for _, e := range s.exports {
		if e.known.Load() == nil {
			absent = errJukebox
		}
	}
	for _, e := range s.exports {
		if absent == errStale {
			tree = e.enter()
		}
		if tree != nil { // it knows what to answer
			return tree, &e.Options, absent
		}
	}
	return nil, nil, absent
}

// refuse answers a call without looking at its arguments.
func refuse(call *oncrpc.Call, reply *oncrpc.Reply, status statusError) {
	call.Args.Claim()
	reply.Stream = xdr.AppendUint32(reply.Stream, uint32(status))
	for range procedures[call.Procedure].absent {
		reply.Stream = xdr.AppendBool(reply.Stream, false)
	}
}

func (r *request) serve() error {
	if err := r.setCred(); err != nil {
		return err
	}
	if p := &procedures[r.call.Procedure]; !p.once {
		return p.run(r)
	}
	return r.srv.replies.serve(r)
}

// handle decodes an nfs_fh3.
func (r *request) handle() []byte { return r.call.Args.Opaque(&r.args, fh.MaxSize) }

// opaque decodes a name or a path.
func (r *request) opaque() []byte { return r.call.Args.Opaque(&r.args, maxOpaque) }

// maxOpaque limits names and paths before their own checks, which have their own statuses.
const maxOpaque = 1 << 16

// decoded returns the error for a call whose arguments cannot be decoded.
func (r *request) decoded() error {
	if r.args.Err() != nil || !r.call.Args.Claimed() {
		return errGarbage
	}
	return nil
}

// begin starts the results with the status of err. It reports whether they are those of
// success.
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
	r.srv.log.Error("NFS call failed with an unexpected error",
		slog.String("procedure", procedureNames[r.call.Procedure]), slog.String("peer", r.call.Peer.String()), slog.Any("error", err))
}

// writable returns errROFS if the export is read-only.
func (r *request) writable() error {
	if r.options.ReadOnly {
		return errROFS
	}
	return nil
}

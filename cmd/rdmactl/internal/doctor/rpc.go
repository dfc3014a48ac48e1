package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// nfs4 is the other version of NFS that servers have.
var nfs4 = target.Program{Number: target.NFS.Number, Version: 4}

// dial connects with version 1, as the Linux client does, or version 2 alone.
func (v *visit) dial(ctx context.Context, extensions rpcrdma.Extensions) (*target.Target, error) {
	s := rpcrdma.DefaultSettings()
	s.Extensions |= extensions
	return target.Dial(ctx, v.Provider, v.address(), v.Timeout, &s)
}

// connect makes the RPC-over-RDMA connection of the checks that follow.
func (v *visit) connect(ctx context.Context) Finding {
	c, err := v.dial(ctx, 0)
	if err != nil {
		return fail(err.Error(), "at the server: look into rdmad's log, or the kernel's (dmesg); rdmactl limits show has the places for connections")
	}
	v.client = c
	return ok("connected in " + c.Info().ConnectTime.String())
}

// call calls NULL of NFS, or of the program that was asked for.
func (v *visit) call(ctx context.Context) Finding {
	if v.Program != nil {
		v.program = *v.Program
		if err := v.null(ctx, v.program); err != nil {
			return v.callFailed(ctx, v.program, err)
		}
		return ok(v.program.String() + " answers")
	}
	var served []string
	var failed error
	for _, p := range []target.Program{target.NFS, nfs4} {
		err := v.null(ctx, p)
		var answer *oncrpc.AcceptError
		switch {
		case err == nil:
			if len(served) == 0 {
				v.program = p
			}
			served = append(served, fmt.Sprint(p.Version))
			v.nfs4 = p == nfs4
		case errors.As(err, &answer) && answer.Stat == oncrpc.ProgMismatch:
			failed = err
		default:
			return v.callFailed(ctx, p, err)
		}
	}
	if len(served) == 0 {
		return v.callFailed(ctx, target.NFS, failed)
	}
	return ok("NFS version " + strings.Join(served, " and ") + " answers")
}

func (v *visit) null(ctx context.Context, p target.Program) error {
	_, err := v.client.Null(ctx, p, v.Timeout)
	return err
}

func (v *visit) callFailed(ctx context.Context, p target.Program, err error) Finding {
	var peer *rpcrdma.PeerError
	var answer *oncrpc.AcceptError
	reason := v.client.Explain(ctx, p, v.Timeout, err)
	switch {
	case errors.As(err, &peer) && peer.Code == rpcrdma1.ErrVers:
		return fail("the server speaks RPC-over-RDMA version 2 alone; Linux clients speak version 1",
			"at the server: rdmactl settings set extensions.v2=on, in place of required")
	case errors.As(err, &answer) && answer.Stat == oncrpc.ProgUnavail:
		return fail(reason.Error(), "give the listener a service that serves NFS: rdmactl services list; --program examines another program")
	case errors.Is(err, context.DeadlineExceeded):
		return fail(reason.Error(), "at the server: see whether its service hangs; of a forwarding rdmad: rdmactl services list")
	}
	return fail(reason.Error(), "at the server: look into rdmad's log, or the kernel's (dmesg)")
}

// version2 finds out whether the server speaks version 2 as well.
func (v *visit) version2(ctx context.Context) Finding {
	c, err := v.dial(ctx, rpcrdma.ExtV2|rpcrdma.ExtV2Only)
	if err == nil {
		defer c.Close()
		if _, err = c.Null(ctx, v.program, v.Timeout); !errors.Is(err, rpcrdma.ErrNoVersion) {
			err = c.Explain(ctx, v.program, v.Timeout, err)
		}
	}
	switch {
	case err == nil:
		return ok("spoken, beside version 1")
	case errors.Is(err, rpcrdma.ErrNoVersion):
		return ok("not spoken: version 1 is, which all clients have")
	}
	return skip("the answer is not known: " + err.Error())
}

// inline looks at how much goes without RDMA Read and Write.
func (v *visit) inline(context.Context) Finding {
	i := v.client.Info()
	text := fmt.Sprintf("calls up to %d bytes, replies up to %d", i.InlineSend, min(i.InlineReceive, i.PeerSendSize))
	if i.InlineSend < rpcrdma.DefaultSettings().InlineSendMax {
		return warn(text+": larger calls make the server read them by RDMA",
			"at the server: rdmactl settings set inline.receive_size=4KiB")
	}
	if i.PeerSendSize < i.InlineReceive {
		return warn(text+": larger replies need RDMA Writes and registrations",
			"at the server: rdmactl settings set inline.send_max=4KiB")
	}
	return ok(text)
}

// fewCredits are too few to keep a server busy with small calls.
const fewCredits = 8

func (v *visit) credits(context.Context) Finding {
	n := v.client.Info().CreditsGranted
	text := fmt.Sprintf("the server grants %d", n)
	if n < fewCredits {
		return warn(text+": so many calls are in flight at once", "at the server: rdmactl settings set credits.max=64 credits.policy=fixed")
	}
	return ok(text)
}

func (v *visit) invalidation(ctx context.Context) Finding {
	switch i := v.client.Info(); {
	case !i.PeerRemoteInvalidation:
		return warn("the server does not offer it: the client invalidates its memory itself, with a wait for each call that moves data",
			"at the server: rdmactl settings set remote_invalidation.accept=on remote_invalidation.use=on, then mount again")
	case v.Daemon != nil:
		if d, err := v.daemon(ctx); err == nil && !d.Invalidates {
			return warn("listener "+d.Listener+" may invalidate the client's memory and does not",
				"rdmactl settings set remote_invalidation.use=on --scope listener/"+d.Listener)
		}
	}
	return ok("both sides have it")
}

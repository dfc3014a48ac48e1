package nfs

import "github.com/rdmad/rdmad/rpcrdma/oncrpc"

var (
	errAuthTooWeak  = &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}
	errAuthRejected = &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthRejectedCred}
)

// cred is the identity for which a call is executed.
type cred struct {
	uid, gid uint32
	gids     []uint32 // storage of the request
}

// invalidID is not a valid ID: to the kernel it means "do not change".
const invalidID = ^uint32(0)

// setCred reads the caller's credential and squashes it as configured. An error denies the
// call.
func (r *request) setCred() error {
	c := &r.cred
	c.gids = c.gids[:0]
	switch r.call.Cred.Flavor {
	case oncrpc.FlavorNone:
		c.uid, c.gid = r.options.AnonUID, r.options.AnonGID
		return nil
	case oncrpc.FlavorSys:
	default:
		return errAuthTooWeak
	}
	if err := r.sys.Decode(r.call.Cred.Body); err != nil {
		return err
	}
	if r.sys.UID == invalidID || r.sys.GID == invalidID {
		return errAuthRejected
	}
	c.uid, c.gid = r.sys.UID, r.sys.GID
	c.gids = append(c.gids, r.sys.GIDs...)
	r.options.squash(c)
	return nil
}

// squash changes c to the identity that the options allow.
func (o *Options) squash(c *cred) {
	switch o.Squash {
	case SquashNone:
	case SquashAll:
		c.uid, c.gid, c.gids = o.AnonUID, o.AnonGID, c.gids[:0]
	case SquashRoot:
		if c.uid == 0 {
			c.uid = o.AnonUID
		}
		if c.gid == 0 {
			c.gid = o.AnonGID
		}
		for i, gid := range c.gids {
			if gid == 0 {
				c.gids[i] = o.AnonGID
			}
		}
	}
}

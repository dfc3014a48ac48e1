package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// Flavors of credentials (RFC 5531 §8.2).
const (
	authNone = 0
	authSys  = 1
)

var (
	errAuthTooWeak  = &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}
	errAuthRejected = &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthRejectedCred}
)

// cred is whom a call is carried out for.
type cred struct {
	uid, gid uint32
	gids     []uint32 // storage of the request
}

// invalidID is no ID of anybody: to the kernel it means "leave alone".
const invalidID = ^uint32(0)

// setCred takes the caller's credential and squashes it as configured. The
// error denies the call.
func (r *request) setCred() error {
	c := &r.cred
	c.gids = c.gids[:0]
	switch r.call.Cred.Flavor {
	case authNone:
		c.uid, c.gid = r.srv.cfg.AnonUID, r.srv.cfg.AnonGID
		return nil
	case authSys:
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
	r.srv.squash(c)
	return nil
}

// squash gives c the identity that the configuration allows it.
func (s *Server) squash(c *cred) {
	switch s.cfg.Squash {
	case SquashNone:
	case SquashAll:
		c.uid, c.gid, c.gids = s.cfg.AnonUID, s.cfg.AnonGID, c.gids[:0]
	case SquashRoot:
		if c.uid == 0 {
			c.uid = s.cfg.AnonUID
		}
		if c.gid == 0 {
			c.gid = s.cfg.AnonGID
		}
		for i, gid := range c.gids {
			if gid == 0 {
				c.gids[i] = s.cfg.AnonGID
			}
		}
	}
}

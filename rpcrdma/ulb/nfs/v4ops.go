package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// op is an operation of a COMPOUND.
type op struct {
	number        uint32
	args, results *Type
}

const opIllegal = 10044

// state is nfs_argop4 and nfs_resop4 of version 4.0 (RFC 7531).
func state() []op {
	var (
		createHow = union(nil,
			at(0, fattr), at(1, fattr), at(2, verifier), at(3, verifier, fattr))
		openHow = union(void, at(1, createHow))
		claim   = union(nil,
			at(0, text), at(1, u32), at(2, stateid, text), at(3, text),
			at(4, void), at(5, stateid), at(6, void))
		locker = union(nil,
			at(1, u32, stateid, u32, owner), at(0, stateid, u32))
		created     = union(void, at(5, path4), at(3, u64), at(4, u64))
		entry       = seq(u64, text, shown)
		maybeDenied = union(void, at(errDenied, denied))
	)
	return []op{
		{3, u32, status(u32, u32)},                             // ACCESS
		{4, seq(u32, stateid), status(stateid)},                // CLOSE
		{5, seq(u64, u32), status(verifier)},                   // COMMIT
		{6, seq(created, text, fattr), status(change, bitmap)}, // CREATE
		{7, u64, u32},               // DELEGPURGE
		{8, stateid, u32},           // DELEGRETURN
		{9, wanted, status(shown)},  // GETATTR
		{10, void, status(handle4)}, // GETFH
		{11, text, status(change)},  // LINK
		{12, seq(u32, boolean, u64, u64, locker), union(void, at(0, stateid), at(errDenied, denied))}, // LOCK
		{13, seq(u32, u64, u64, owner), maybeDenied},                                                  // LOCKT
		{14, seq(u32, u32, stateid, u64, u64), status(stateid)},                                       // LOCKU
		{15, text, u32},  // LOOKUP
		{16, void, u32},  // LOOKUPP
		{17, fattr, u32}, // NVERIFY
		{18, seq(u32, u32, u32, owner, openHow, claim), status(stateid, change, u32, bitmap, delegation)}, // OPEN
		{19, boolean, u32},                                 // OPENATTR
		{20, seq(stateid, u32), status(stateid)},           // OPEN_CONFIRM
		{21, seq(stateid, u32, u32, u32), status(stateid)}, // OPEN_DOWNGRADE
		{22, handle4, u32},                                 // PUTFH
		{23, void, u32},                                    // PUTPUBFH
		{24, void, u32},                                    // PUTROOTFH
		{25, seq(stateid, u64, word(ulb.Expect)), eligible(status(boolean, walk.Item(noLimit)))},                 // READ
		{26, seq(u64, verifier, u32, word(ulb.Count), listed), status(verifier, guess(4, list(entry)), boolean)}, // READDIR
		{27, mark(ulb.ExpectPath, maxPath), eligible(status(path4))},                                             // READLINK
		{28, text, status(change)},                    // REMOVE
		{29, seq(text, text), status(change, change)}, // RENAME
		{30, u64, u32},                                // RENEW
		{31, void, u32},                               // RESTOREFH
		{32, void, u32},                               // SAVEFH
		{33, text, secinfo},                           // SECINFO
		{34, seq(stateid, fattr), seq(u32, bitmap)},   // SETATTR: the bitmap comes with an error, too
		{35, seq(verifier, opaque(maxOwner), u32, netaddr, u32), union(void, at(0, u64, verifier), at(errInUse, netaddr))}, // SETCLIENTID
		{36, seq(u64, verifier), u32}, // SETCLIENTID_CONFIRM
		{37, fattr, u32},              // VERIFY
		{38, seq(stateid, u64, u32, walk.Item(noLimit)), status(u32, u32, verifier)}, // WRITE
		{39, owner, u32}, // RELEASE_LOCKOWNER
		{opIllegal, void, u32},
	}
}

// sessions returns the operations that version 4.1 added (RFC 5662).
func sessions() []op {
	var (
		oid     = opaque(noLimit)
		protect = union(nil,
			at(0, void), at(1, protected),
			at(2, protected, array(noLimit, oid), array(noLimit, oid), u32, u32))
		isProtected = union(nil,
			at(0, void), at(1, protected),
			at(2, guess(2*expectBitmap+1024, seq(protected, fixed(16), array(noLimit, opaque(noLimit))))))
		noticed  = union(nil, at(0, verifier, stateid, bitmap, bitmap, bitmap), at(1, boolean))
		newTime  = union(nil, at(1, time4), at(0, void))
		newU64   = union(nil, at(1, u64), at(0, void))
		returned = union(void, at(1, u64, u64, stateid, body))
		left     = union(nil, at(1, stateid), at(0, void))
		layout   = seq(u64, u64, u32, layoutUpd)
		claim    = union(nil, at(4, void), at(6, void), at(1, u32))
	)
	return []op{
		{40, seq(u32, array(noLimit, callbackSec)), u32},                           // BACKCHANNEL_CTL
		{41, seq(session, u32, boolean), status(session, word(ulb.Bind), boolean)}, // BIND_CONN_TO_SESSION
		{42, seq(verifier, opaque(maxOwner), u32, protect, maybe(impl)),
			status(u64, u32, u32, isProtected, u64, opaque(maxOwner), opaque(maxOwner), maybe(impl))}, // EXCHANGE_ID
		{43, seq(u64, u32, word(ulb.Session), foreChannel, backChannel, u32, array(noLimit, callbackSec)),
			status(session, u32, word(ulb.Session), foreChannel, backChannel)}, // CREATE_SESSION
		{44, session, u32}, // DESTROY_SESSION
		{45, stateid, u32}, // FREE_STATEID
		{46, seq(boolean, bitmap, time4, time4, bitmap, bitmap), status(noticed)}, // GET_DIR_DELEGATION
		{47, seq(fixed(deviceID), u32, word(ulb.Count), bitmap),
			union(void, at(0, u32, guess(4, body), bitmap), at(errTooSmall, u32))}, // GETDEVICEINFO
		{48, seq(u32, word(ulb.Grow16), u64, verifier),
			status(u64, verifier, guess(4, array(noLimit, fixed(deviceID))), boolean)}, // GETDEVICELIST
		{49, seq(u64, u64, boolean, stateid, newU64, newTime, layoutUpd), status(newU64)}, // LAYOUTCOMMIT
		{50, seq(boolean, u32, u32, u64, u64, u64, stateid, word(ulb.Count)),
			union(void, at(0, boolean, stateid, guess(4, array(noLimit, layout))), at(errTryLater, boolean))}, // LAYOUTGET
		{51, seq(boolean, u32, u32, returned), status(left)}, // LAYOUTRETURN
		{52, u32, secinfo}, // SECINFO_NO_NAME
		{53, seq(session, u32, u32, u32, boolean), status(session, fixed(5*4))},                   // SEQUENCE
		{54, seq(opaque(noLimit), opaque(noLimit)), status(guess(expectDigest, opaque(noLimit)))}, // SET_SSV
		{55, walk.Array(noLimit, stateid, ulb.Grow4), status(guess(4, array(noLimit, u32)))},      // TEST_STATEID
		{56, seq(u32, claim), status(delegation)},                                                 // WANT_DELEGATION
		{57, u64, u32},     // DESTROY_CLIENTID
		{58, boolean, u32}, // RECLAIM_COMPLETE
	}
}

// copies returns the operations that version 4.2 added (RFC 7863), and those of
// extended attributes (RFC 8276).
func copies() []op {
	var (
		servers     = guess(expectServer, array(noLimit, netloc))
		agreed      = seq(boolean, boolean)
		deviceError = seq(fixed(deviceID), u32, u32)
		io          = fixed(16)
		segment     = union(void, at(0, u64, opaque(noLimit)), at(1, u64, u64))
		block       = seq(u64, u64, u64, u64, u32, u64, opaque(noLimit))
	)
	return []op{
		{59, seq(stateid, u64, u64), u32}, // ALLOCATE
		{60, seq(stateid, stateid, u64, u64, u64, boolean, boolean, array(noLimit, netloc)),
			union(void, at(0, written, agreed), at(errOffloadReqs, agreed))}, // COPY
		{61, seq(stateid, netloc), status(time4, stateid, servers)},           // COPY_NOTIFY
		{62, seq(stateid, u64, u64), u32},                                     // DEALLOCATE
		{63, seq(stateid, u64, u64, bitmap), status(bitmap)},                  // IO_ADVISE
		{64, seq(u64, u64, stateid, array(noLimit, deviceError)), u32},        // LAYOUTERROR
		{65, seq(u64, u64, stateid, io, io, fixed(deviceID), layoutUpd), u32}, // LAYOUTSTATS
		{66, stateid, u32},                     // OFFLOAD_CANCEL
		{67, stateid, status(u64, maybe(u32))}, // OFFLOAD_STATUS
		{68, seq(stateid, u64, word(ulb.Count)), status(boolean, guess(expectHoles, array(noLimit, segment)))}, // READ_PLUS
		{69, seq(stateid, u64, u32), status(boolean, u64)},                                                     // SEEK
		{70, seq(stateid, u32, block), status(written)},                                                        // WRITE_SAME
		{71, seq(stateid, stateid, u64, u64, u64), u32},                                                        // CLONE
		{72, text, status(guess(expectXattr, opaque(noLimit)))},                                                // GETXATTR
		{73, seq(u32, text, opaque(noLimit)), status(change)},                                                  // SETXATTR
		{74, seq(u64, word(ulb.Count)), status(u64, guess(4, array(noLimit, text)), boolean)},                  // LISTXATTRS
		{75, text, status(change)},                                                                             // REMOVEXATTR
	}
}

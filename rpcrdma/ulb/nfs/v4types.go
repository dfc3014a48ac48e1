package nfs

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// Limits of the protocol (RFC 7531, RFC 5662), in bytes or elements.
const (
	maxHandle4 = 128  // NFS4_FHSIZE
	maxOwner   = 1024 // NFS4_OPAQUE_LIMIT
	sessionID  = 16   // NFS4_SESSIONID_SIZE
	deviceID   = 16   // NFS4_DEVICEID4_SIZE
)

// The assumed maximum sizes of results for which the protocol has no limit, in bytes.
const (
	expectBitmap = 4 + 4*8 // 256 attributes, operations or hints
	expectString = 4 + 1024
	expectServer = 4 + 1024 // lists of servers
	expectFlavor = 4 + 1024 // lists of security flavors
	expectXattr  = 4 + 65536
	expectDigest = 4 + 512
	expectHoles  = 4 + 64*20 // segments of READ_PLUS without their data
)

// MaxOperations bounds the operations of a COMPOUND that is walked.
const MaxOperations = 1024

// The errors of nfsstat4 whose results have more than the status.
const (
	errTooSmall    = 10005
	errDenied      = 10010
	errInUse       = 10017
	errTryLater    = 10058
	errOffloadReqs = 10094
)

// Data types of several operations (RFC 7531, RFC 5662, RFC 7863).
var (
	stateid   = fixed(16)
	verifier  = u64
	time4     = fixed(12)
	text      = guess(expectString, opaque(noLimit))
	body      = opaque(noLimit) // what a layout type or an attribute defines
	handle4   = opaque(maxHandle4)
	owner     = seq(u64, opaque(maxOwner))
	bitmap    = guess(expectBitmap, array(noLimit, u32))
	fattr     = seq(bitmap, guess(4, body)) // its values grow with what is asked for
	change    = seq(boolean, u64, u64)
	netaddr   = seq(text, text)
	netloc    = union(nil, at(1, text), at(2, text), at(3, netaddr))
	ace       = seq(u32, u32, u32, text)
	session   = fixed(sessionID)
	protected = seq(bitmap, bitmap) // state_protect_ops4
	impl      = seq(text, text, time4)
	written   = seq(maybe(stateid), u64, u32, verifier) // write_response4
	denied    = seq(u64, u64, u32, owner)
	layoutUpd = seq(u32, body)
	path4     = walk.Item(noLimit)

	// channel_attrs4 (RFC 8881 §18.36): padding; most bytes of a request, of a
	// response, of a response that is kept; operations; requests at once
	foreChannel = seq(u32, word(ulb.Message), word(ulb.Message), word(ulb.Message),
		word(ulb.Operations), u32, maybe(u32))
	backChannel = seq(u32, word(ulb.BackCall), word(ulb.BackReply), word(ulb.BackReply),
		u32, u32, maybe(u32))

	// callback_sec_parms4: AUTH_NONE, AUTH_SYS, RPCSEC_GSS
	callbackSec = union(nil,
		at(0, void),
		at(1, u32, opaque(255), u32, u32, array(16, u32)),
		at(6, u32, opaque(noLimit), opaque(noLimit)))

	// open_delegation4; 4 and 5 are of RFC 9754.
	delegation = union(nil, slices.Concat(
		on(void, 0),
		on(seq(stateid, boolean, ace), 1, 4),
		on(seq(stateid, boolean, spaceLimit, ace), 2, 5),
		on(noDelegation, 3))...)
	spaceLimit   = union(nil, on(u64, 1, 2)...)
	noDelegation = union(void, on(boolean, 1, 2)...)

	// secinfo4; 6 is RPCSEC_GSS.
	secinfo = status(guess(expectFlavor, array(noLimit,
		union(void, at(6, opaque(noLimit), u32, u32)))))
)

// attrSizes is the encoded size of each attribute, by its number; the last is for those without
// one here (RFC 7531, RFC 5662, RFC 7862, RFC 8275, RFC 8276, RFC 9754, and the drafts that Linux
// implements).
var attrSizes = func() []uint32 {
	sizes := make([]uint32, 94)
	for i := range sizes {
		sizes[i] = 24 // integers, times, pairs of them
	}
	large := map[int]uint32{
		0: expectBitmap, 19: 4 + maxHandle4,
		12: 65536, 58: 65536, 59: 65536, // acl, dacl, sacl
		24: 4096, 67: 8192, // fs_locations, fs_locations_info
		34: expectString, 36: expectString, 37: expectString, // mimetype, owner, owner_group
		61: 32 + 2*expectString,                  // fs_status
		62: 4 + 4*16, 64: 4 + 4*16, 63: 8 + 1024, // layout types and hint
		68: 4 + 4*1024, 69: 40, 70: 40, // mdsthreshold, retentions
		75: expectBitmap, 80: 12 + 4096, // suppattr_exclcreat, sec_label
		86: 5 * expectBitmap, // open_arguments
		91: 65536, 92: 65536, // posix_default_acl, posix_access_acl
		93: 1024,
	}
	for i, n := range large {
		sizes[i] = n
	}
	return sizes
}()

// wanted is the bitmap of attributes that an operation returns. listed is the same where
// another field limits the size of the results.
var (
	wanted = walk.Bits(noLimit, ulb.Wanted, attrSizes, limitAttrs)
	listed = walk.Bits(noLimit, ulb.Wanted, []uint32{0}, limitAttrs)
)

package rdmap

// Layers of a Terminate (RFC 5040 §4.8).
const (
	LayerRDMAP = 0
	LayerDDP   = 1
	LayerMPA   = 2
)

// Error types of the layers (RFC 5040 §4.8, RFC 5041 §7.2, RFC 5044 §8).
const (
	TypeRDMAPLocal      = 0 // local catastrophic error
	TypeRDMAPProtection = 1 // remote protection error
	TypeRDMAPOperation  = 2 // remote operation error
	TypeDDPLocal        = 0
	TypeDDPTagged       = 1
	TypeDDPUntagged     = 2
	TypeMPA             = 0
)

// Fault is the reason in a Terminate: layer, error type and code.
type Fault struct {
	Layer, Type, Code uint8
}

// All reasons of RFC 5040, 5041, 5044 and 6581.
var (
	LocalCatastrophic = Fault{LayerRDMAP, TypeRDMAPLocal, 0x00}

	InvalidSTag           = Fault{LayerRDMAP, TypeRDMAPProtection, 0x00}
	BaseOrBounds          = Fault{LayerRDMAP, TypeRDMAPProtection, 0x01}
	AccessRights          = Fault{LayerRDMAP, TypeRDMAPProtection, 0x02}
	STagNotAssociated     = Fault{LayerRDMAP, TypeRDMAPProtection, 0x03}
	TOWrap                = Fault{LayerRDMAP, TypeRDMAPProtection, 0x04}
	STagNotInvalidatable  = Fault{LayerRDMAP, TypeRDMAPProtection, 0x09}
	ProtectionUnspecified = Fault{LayerRDMAP, TypeRDMAPProtection, 0xff}

	InvalidRDMAPVersion    = Fault{LayerRDMAP, TypeRDMAPOperation, 0x05}
	UnexpectedOpcode       = Fault{LayerRDMAP, TypeRDMAPOperation, 0x06}
	CatastrophicStream     = Fault{LayerRDMAP, TypeRDMAPOperation, 0x07}
	CatastrophicGlobal     = Fault{LayerRDMAP, TypeRDMAPOperation, 0x08}
	CannotInvalidate       = Fault{LayerRDMAP, TypeRDMAPOperation, 0x09}
	OperationUnspecified   = Fault{LayerRDMAP, TypeRDMAPOperation, 0xff}
	DDPLocalCatastrophic   = Fault{LayerDDP, TypeDDPLocal, 0x00}
	TaggedInvalidSTag      = Fault{LayerDDP, TypeDDPTagged, 0x00}
	TaggedBaseOrBounds     = Fault{LayerDDP, TypeDDPTagged, 0x01}
	TaggedNotAssociated    = Fault{LayerDDP, TypeDDPTagged, 0x02}
	TaggedTOWrap           = Fault{LayerDDP, TypeDDPTagged, 0x03}
	TaggedInvalidVersion   = Fault{LayerDDP, TypeDDPTagged, 0x04}
	UntaggedInvalidQN      = Fault{LayerDDP, TypeDDPUntagged, 0x01}
	UntaggedNoBuffer       = Fault{LayerDDP, TypeDDPUntagged, 0x02}
	UntaggedMSNRange       = Fault{LayerDDP, TypeDDPUntagged, 0x03}
	UntaggedInvalidMO      = Fault{LayerDDP, TypeDDPUntagged, 0x04}
	UntaggedTooLong        = Fault{LayerDDP, TypeDDPUntagged, 0x05}
	UntaggedInvalidVersion = Fault{LayerDDP, TypeDDPUntagged, 0x06}

	MPAClosed            = Fault{LayerMPA, TypeMPA, 0x01}
	MPACRC               = Fault{LayerMPA, TypeMPA, 0x02}
	MPALength            = Fault{LayerMPA, TypeMPA, 0x03}
	MPAInvalidFrame      = Fault{LayerMPA, TypeMPA, 0x04}
	MPALocalCatastrophic = Fault{LayerMPA, TypeMPA, 0x05}
	MPAInsufficientIRD   = Fault{LayerMPA, TypeMPA, 0x06}
	MPANoMatchingRTR     = Fault{LayerMPA, TypeMPA, 0x07}
)

// reasons is used only when a connection fails, never on the data path.
var reasons = map[Fault]string{
	LocalCatastrophic:      "local catastrophic error",
	InvalidSTag:            "invalid STag",
	BaseOrBounds:           "base or bounds violation",
	AccessRights:           "access rights violation",
	STagNotAssociated:      "STag not associated with the stream",
	TOWrap:                 "tagged offset wrap",
	STagNotInvalidatable:   "STag cannot be invalidated",
	ProtectionUnspecified:  "unspecified protection error",
	InvalidRDMAPVersion:    "invalid RDMAP version",
	UnexpectedOpcode:       "unexpected opcode",
	CatastrophicStream:     "catastrophic error of the stream",
	CatastrophicGlobal:     "global catastrophic error",
	CannotInvalidate:       "STag cannot be invalidated",
	OperationUnspecified:   "unspecified operation error",
	DDPLocalCatastrophic:   "DDP local catastrophic error",
	TaggedInvalidSTag:      "invalid STag",
	TaggedBaseOrBounds:     "base or bounds violation",
	TaggedNotAssociated:    "STag not associated with the stream",
	TaggedTOWrap:           "tagged offset wrap",
	TaggedInvalidVersion:   "invalid DDP version",
	UntaggedInvalidQN:      "invalid queue number",
	UntaggedNoBuffer:       "no buffer available for the message",
	UntaggedMSNRange:       "message sequence number out of range",
	UntaggedInvalidMO:      "invalid message offset",
	UntaggedTooLong:        "message too long for the buffer",
	UntaggedInvalidVersion: "invalid DDP version",
	MPAClosed:              "TCP connection closed or lost",
	MPACRC:                 "CRC mismatch",
	MPALength:              "ULPDU length does not fit the FPDU",
	MPAInvalidFrame:        "invalid MPA frame",
	MPALocalCatastrophic:   "MPA local catastrophic error",
	MPAInsufficientIRD:     "insufficient IRD",
	MPANoMatchingRTR:       "no matching RTR option",
}

// Known reports whether a specification defines the fault.
func (f Fault) Known() bool {
	_, ok := reasons[f]
	return ok
}

// String returns a description of the fault.
func (f Fault) String() string {
	if s, ok := reasons[f]; ok {
		return s
	}
	return "undefined error"
}

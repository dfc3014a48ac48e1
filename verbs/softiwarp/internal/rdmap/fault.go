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

// reasons is used only when a connection fails, never on the data path.
var reasons = make(map[Fault]string)

func fault(layer, kind, code uint8, reason string) Fault {
	f := Fault{layer, kind, code}
	reasons[f] = reason
	return f
}

// All reasons of RFC 5040, 5041, 5044 and 6581.
var (
	LocalCatastrophic = fault(LayerRDMAP, TypeRDMAPLocal, 0x00, "local catastrophic error")

	InvalidSTag           = fault(LayerRDMAP, TypeRDMAPProtection, 0x00, "invalid STag")
	BaseOrBounds          = fault(LayerRDMAP, TypeRDMAPProtection, 0x01, "base or bounds violation")
	AccessRights          = fault(LayerRDMAP, TypeRDMAPProtection, 0x02, "access rights violation")
	STagNotAssociated     = fault(LayerRDMAP, TypeRDMAPProtection, 0x03, "STag not associated with the stream")
	TOWrap                = fault(LayerRDMAP, TypeRDMAPProtection, 0x04, "tagged offset wrap")
	STagNotInvalidatable  = fault(LayerRDMAP, TypeRDMAPProtection, 0x09, "STag cannot be invalidated")
	ProtectionUnspecified = fault(LayerRDMAP, TypeRDMAPProtection, 0xff, "unspecified protection error")

	InvalidRDMAPVersion    = fault(LayerRDMAP, TypeRDMAPOperation, 0x05, "invalid RDMAP version")
	UnexpectedOpcode       = fault(LayerRDMAP, TypeRDMAPOperation, 0x06, "unexpected opcode")
	CatastrophicStream     = fault(LayerRDMAP, TypeRDMAPOperation, 0x07, "catastrophic error of the stream")
	CatastrophicGlobal     = fault(LayerRDMAP, TypeRDMAPOperation, 0x08, "global catastrophic error")
	CannotInvalidate       = fault(LayerRDMAP, TypeRDMAPOperation, 0x09, "STag cannot be invalidated")
	OperationUnspecified   = fault(LayerRDMAP, TypeRDMAPOperation, 0xff, "unspecified operation error")
	DDPLocalCatastrophic   = fault(LayerDDP, TypeDDPLocal, 0x00, "DDP local catastrophic error")
	TaggedInvalidSTag      = fault(LayerDDP, TypeDDPTagged, 0x00, "invalid STag")
	TaggedBaseOrBounds     = fault(LayerDDP, TypeDDPTagged, 0x01, "base or bounds violation")
	TaggedNotAssociated    = fault(LayerDDP, TypeDDPTagged, 0x02, "STag not associated with the stream")
	TaggedTOWrap           = fault(LayerDDP, TypeDDPTagged, 0x03, "tagged offset wrap")
	TaggedInvalidVersion   = fault(LayerDDP, TypeDDPTagged, 0x04, "invalid DDP version")
	UntaggedInvalidQN      = fault(LayerDDP, TypeDDPUntagged, 0x01, "invalid queue number")
	UntaggedNoBuffer       = fault(LayerDDP, TypeDDPUntagged, 0x02, "no buffer available for the message")
	UntaggedMSNRange       = fault(LayerDDP, TypeDDPUntagged, 0x03, "message sequence number out of range")
	UntaggedInvalidMO      = fault(LayerDDP, TypeDDPUntagged, 0x04, "invalid message offset")
	UntaggedTooLong        = fault(LayerDDP, TypeDDPUntagged, 0x05, "message too long for the buffer")
	UntaggedInvalidVersion = fault(LayerDDP, TypeDDPUntagged, 0x06, "invalid DDP version")

	MPAClosed            = fault(LayerMPA, TypeMPA, 0x01, "TCP connection closed or lost")
	MPACRC               = fault(LayerMPA, TypeMPA, 0x02, "CRC mismatch")
	MPALength            = fault(LayerMPA, TypeMPA, 0x03, "ULPDU length does not fit the FPDU")
	MPAInvalidFrame      = fault(LayerMPA, TypeMPA, 0x04, "invalid MPA frame")
	MPALocalCatastrophic = fault(LayerMPA, TypeMPA, 0x05, "MPA local catastrophic error")
	MPAInsufficientIRD   = fault(LayerMPA, TypeMPA, 0x06, "insufficient IRD")
	MPANoMatchingRTR     = fault(LayerMPA, TypeMPA, 0x07, "no matching RTR option")
)

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

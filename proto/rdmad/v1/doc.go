// Package rdmadv1 is the gRPC API of rdmad's control plane, generated from the
// .proto files beside it by `make generate`. The comments there are its
// documentation. Only the control plane's gRPC edge, rdmactl and other gRPC
// clients use it; inside rdmad the native types stand.
package rdmadv1

// JudgedHeader is in the response header of a Trace with check: an rdmad that
// does not know the field would leave it out, and find nothing.
const JudgedHeader = "rdmad-judged"

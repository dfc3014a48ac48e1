package ulb

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Errors of a Plan.
var (
	// ErrMalformed: the bytes do not follow the program's protocol.
	ErrMalformed = errors.New("ulb: malformed")
	// ErrUnknown: the binding does not know an operation, so the rest cannot be walked.
	ErrUnknown = errors.New("ulb: unknown operation")
	// ErrUnplanned: a reply has a DDP-eligible result that its call did not ask for, or a
	// larger one than it asked for.
	ErrUnplanned = errors.New("ulb: result that was not asked for")
	// ErrIneligible: an item that is not DDP-eligible was reduced, or it does not have the
	// length of its length word.
	ErrIneligible = errors.New("ulb: reduced what is not DDP-eligible")
)

const (
	// maxItems limits the items of a call, and the results that it plans.
	maxItems = 1024
	// maxEstimate is the largest estimate, in bytes.
	maxEstimate = 1 << 30
)

// Item is a DDP-eligible argument.
type Item struct {
	// Pos is the offset of its first byte in the arguments, after its length
	// word.
	Pos int
	// Len is its length without roundup.
	Len int
}

// Result is a DDP-eligible result that a call asks for.
type Result struct {
	// Max is the most bytes that it may have.
	Max int
	// Path means that it is the target of a symbolic link.
	Path bool
	// Asked is the operation that asks for it: a span of the arguments' XDR stream, items
	// included. It is empty if the arguments are one operation.
	Asked xdr.Span
	// Pos is the offset of its first byte in the results, or -1 until the reply has shown
	// it. It stays -1 if the operation failed. Its write chunk is then empty.
	Pos int
	// Len is its length without roundup.
	Len int
}

// Step is the reason why Walk stopped.
type Step uint8

// Steps.
const (
	// More: all bytes are consumed and more are needed.
	More Step = iota
	// AtItem: the next byte is the first of a DDP-eligible item. Current is its index.
	AtItem
	// End: the binding does not describe what follows.
	End
	// OverLimit: the consumed bytes end with a value that exceeds the Limits. Lower
	// replaces it with the limit.
	OverLimit
)

// Plan is what a binding says about one call and its reply. A field is valid as soon as the
// walk has passed what it describes.
type Plan struct {
	// Binding is nil if the program has none.
	Binding *Binding
	// Items are the DDP-eligible arguments, in order.
	Items []Item
	// Results are the DDP-eligible results that the call asks for, in order.
	Results []Result
	// MaxReply is the largest possible size of the results without the bytes of Results, in
	// bytes, or Unknown. It includes room for the verifier of RPCSEC_GSS.
	MaxReply int
	// Opened is what the call and its reply have opened for callbacks.
	Opened Opened
	// Limits limits values in the call and the reply. nil means no limits. The caller may
	// set it at any time.
	Limits *Limits

	proc    *Proc
	guarded protection
	asked   uint32 // csa_flags of CREATE_SESSION
	reply   bool   // the walk is over results
	whole   bool   // the body is complete, and its items may be separate
	index   int    // in results: how many of Results were seen
	current int    // item that the walk stopped at
	told    bool   // the reply contains limits
	over    over   // limit that the walk stopped at
	// The operation of a COMPOUND that the walk is in: the offset of its arguments, or -1
	// outside of any, and how many results were planned before it.
	began, before int
	// absent is how many bytes of the items so far are not in the body.
	absent int
	err    error
	w      walk.Walker
}

// StartCall begins with the call whose header is c, of any program. Its arguments are total
// bytes long; negative means unknown. It does not read c.Args.
func (p *Plan) StartCall(r *Registry, c *oncrpc.Call, total int) {
	p.Binding = r.Lookup(c.Program, c.Version)
	p.proc = p.Binding.proc(c.Procedure)
	p.Items, p.Results, p.Opened = p.Items[:0], p.Results[:0], NotOpened
	p.guarded = protectionOf(&c.Cred)
	p.asked, p.told, p.reply, p.whole, p.err = 0, false, false, false, nil
	p.began, p.before, p.absent = -1, 0, 0
	p.MaxReply = Unknown
	if p.proc == nil || p.guarded == hidden {
		p.w = walk.Walker{}
		return
	}
	p.MaxReply = p.proc.maxReply
	if c.Cred.Flavor == oncrpc.FlavorGSS {
		p.grow(1, oncrpc.MaxAuthBody)
	}
	if p.guarded == integrity {
		p.grow(1, gssBodyHead+gssBodyTail)
		p.w.Reset(p.proc.guarded, total)
		return
	}
	p.w.Reset(p.proc.Args, total)
}

// StartReply continues with the results of a successful reply, of total bytes; negative
// means unknown. Other replies have no results.
func (p *Plan) StartReply(total int) {
	p.reply, p.whole, p.index, p.err, p.Opened = true, false, 0, nil, NotOpened
	for i := range p.Results {
		p.Results[i].Pos, p.Results[i].Len = -1, 0
	}
	if p.proc == nil || p.guarded != bare {
		p.w = walk.Walker{}
		return
	}
	p.w.Reset(p.proc.Results, total)
}

// Walk continues with b, the next bytes of the body, and returns how many bytes it
// consumed. At AtItem the caller may remove the item's bytes and roundup padding from the
// stream and report this with Took. The next Walk skips those that it does not remove. An
// error is permanent.
func (p *Plan) Walk(b []byte) (n int, s Step, err error) {
	for p.err == nil {
		m, ev, err := p.w.Next(b[n:])
		n += m
		switch {
		case err != nil:
			p.err = wrap(err)
			p.broken()
		case ev.Kind == walk.More:
			return n, More, nil
		case ev.Kind == walk.End:
			p.operation(p.w.Offset())
			return n, End, nil
		case ev.Kind == walk.Tagged:
			lowered := p.hold(&ev)
			if p.err = p.tagged(ev); lowered && p.err == nil {
				return n, OverLimit, nil
			}
		case p.guarded == bare: // at an item
			if p.err = p.item(int(ev.Value)); p.err == nil {
				return n, AtItem, nil
			}
		}
	}
	return n, End, p.err
}

// Took reports that the caller removed the item's next n bytes from the stream, at most
// Pending.
func (p *Plan) Took(n int) { p.w.Pass(n) }

// Pending returns how many bytes of the item, with roundup padding, come next.
func (p *Plan) Pending() int { return p.w.Pending() }

// Current returns the index of the item at which Walk stopped: in Items or, in a reply, in
// Results.
func (p *Plan) Current() int { return p.current }

// Protected reports whether the program has a binding but RPCSEC_GSS protects the bodies of
// this call and its reply, so that what they ask for and open is unknown.
func (p *Plan) Protected() bool { return p.proc != nil && p.guarded != bare }

// Offset returns how many bytes of the body are consumed.
func (p *Plan) Offset() int { return p.w.Offset() }

// Finish must be called at the end of the body. It returns an error if the walk is not
// complete.
func (p *Plan) Finish() error {
	if _, s, err := p.Walk(nil); err != nil || s == End {
		return err
	}
	p.err = wrap(walk.ErrShort)
	return p.err
}

func wrap(err error) error {
	if errors.Is(err, walk.ErrUnknown) {
		return ErrUnknown
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

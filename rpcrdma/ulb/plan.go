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
	// ErrMalformed: the bytes are not what the program's protocol says.
	ErrMalformed = errors.New("ulb: malformed")
	// ErrUnknown: an operation that the binding does not know. What follows
	// can't be told.
	ErrUnknown = errors.New("ulb: unknown operation")
	// ErrUnplanned: a reply has a DDP-eligible result that its call did not
	// ask for, or one larger than it asked for.
	ErrUnplanned = errors.New("ulb: result that was not asked for")
	// ErrIneligible: something stands apart that is not DDP-eligible, or it is
	// not as long as its length word says.
	ErrIneligible = errors.New("ulb: reduced what is not DDP-eligible")
)

const (
	// maxItems bounds the items of a call, and the results that it plans.
	maxItems = 1024
	// maxEstimate is where estimates stop growing, in bytes.
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
	// Path: it is the target of a symbolic link.
	Path bool
	// Asked is where the operation is that asks for it: in the XDR stream of the
	// arguments, items included. It is empty when they are one operation.
	Asked xdr.Span
	// Pos is the offset of its first byte in the results, -1 while the reply
	// has not shown it: it stays so when the operation failed, and its write
	// chunk stays empty.
	Pos int
	// Len is its length without roundup.
	Len int
}

// Step is why Walk stopped.
type Step uint8

// Steps.
const (
	// More: all bytes are used up and more are needed.
	More Step = iota
	// AtItem: the next byte is the first of a DDP-eligible item, Item says
	// which.
	AtItem
	// End: the binding has nothing to say about what follows.
	End
	// OverLimit: the bytes done end with a number that is over the Limits.
	// Lower writes the limit in its place.
	OverLimit
)

// Plan is what a binding says of one call and its reply. Its fields are valid
// as soon as the walk has come past what they are about.
type Plan struct {
	// Binding is nil when the program has none.
	Binding *Binding
	// Items are the DDP-eligible arguments, in order.
	Items []Item
	// Results are the DDP-eligible results that the call asks for, in order.
	Results []Result
	// MaxReply is the largest that the results may become without the bytes
	// of Results, in bytes, or Unknown. It leaves room for the verifier of
	// RPCSEC_GSS.
	MaxReply int
	// Back is what the reply has opened for callbacks.
	Back BackChannel
	// Limits are what numbers of the call and of the reply are held to; nil
	// lets them be. It belongs to the caller, who may set it at any time.
	Limits *Limits

	proc    *Proc
	guarded protection
	asked   asked
	reply   bool // the walk is over results
	whole   bool // the body is at hand, its items may stand apart
	index   int  // results: how many of Results have come up
	current int  // item that the walk stopped at
	told    bool // the reply tells limits
	over    over // limit that the walk stopped at
	// The operation of a COMPOUND that the walk is in: where its arguments began,
	// -1 outside of any, and how many results were planned before.
	began, before int
	// absent is how many bytes of the items so far are not in the body.
	absent int
	err    error
	w      walk.Walker
}

// StartCall begins with the call whose header is c, of any program. Its
// arguments are total bytes long, negative when that is not known. c.Args is
// not looked at.
func (p *Plan) StartCall(r *Registry, c *oncrpc.Call, total int) {
	p.start(r.Lookup(c.Program, c.Version), c, total)
}

// StartCallback is StartCall for a call from a server to a client that has
// chosen the programs known.
func (p *Plan) StartCallback(r *Registry, known *Callbacks, c *oncrpc.Call, total int) {
	program := c.Program
	if known.Has(program) {
		program = CallbackBase
	}
	p.start(r.Lookup(program, c.Version), c, total)
}

func (p *Plan) start(b *Binding, c *oncrpc.Call, total int) {
	p.Binding, p.proc = b, b.proc(c.Procedure)
	p.Items, p.Results, p.Back = p.Items[:0], p.Results[:0], BackChannel{}
	p.guarded = protectionOf(&c.Cred)
	p.asked, p.told, p.reply, p.whole, p.err = asked{}, false, false, false, nil
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

// StartReply goes on with the results of a successful reply, of total bytes,
// negative when that is not known. Other replies have no results.
func (p *Plan) StartReply(total int) {
	p.reply, p.whole, p.index, p.err, p.Back = true, false, 0, nil, BackChannel{}
	for i := range p.Results {
		p.Results[i].Pos, p.Results[i].Len = -1, 0
	}
	if p.proc == nil || p.guarded != bare {
		p.w = walk.Walker{}
		return
	}
	p.w.Reset(p.proc.Results, total)
}

// Walk goes on over b, the next bytes of the body, and returns the number of
// bytes done. At AtItem the caller may take the item's bytes and roundup out of
// the stream itself and say so with Took; those that it does not take are
// passed over by the next Walk. An error sticks.
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

// Took says that the caller took the item's next n bytes out of the stream
// itself: no more than Pending.
func (p *Plan) Took(n int) { p.w.Pass(n) }

// Pending is how many of the item's bytes, with roundup, come next.
func (p *Plan) Pending() int { return p.w.Pending() }

// Current is the index of the item that Walk stopped at, in Items or, when the
// reply is walked, in Results.
func (p *Plan) Current() int { return p.current }

// Protected says that the program has a binding but RPCSEC_GSS keeps the bodies
// of this call and its reply from it: what they ask for and open is not known.
func (p *Plan) Protected() bool { return p.proc != nil && p.guarded != bare }

// Offset is how many bytes of the body are done.
func (p *Plan) Offset() int { return p.w.Offset() }

// Finish is to be called at the end of the body: it is an error when the walk
// has not come to its own.
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

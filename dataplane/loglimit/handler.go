package loglimit

import (
	"context"
	"hash/maphash"
	"log/slog"
	"time"
)

// PeerKey is the attribute that names the peer that caused a line: an address,
// with or without a port, or another name.
const PeerKey = "peer"

// Handler passes lines on to another handler and holds back the lines of a flood. A Handler
// and those derived from it count together. All methods may be called from any goroutine.
type Handler struct {
	next    slog.Handler
	limiter *limiter // shared by all derived handlers

	// Set by WithAttrs and WithGroup.
	bound   uint64 // hash of attributes and groups
	peer    string
	grouped bool
}

var _ slog.Handler = (*Handler)(nil)

// New makes a handler that writes to next.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, limiter: newLimiter(next)}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	kind, peer := h.classify(&r)
	due, pass := h.limiter.take(kind, peer, line{h.next, r}, time.Now())
	due.write()
	if !pass {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// Flush logs the counts of the lines that were held back since the last counts.
func (h *Handler) Flush() {
	for _, due := range h.limiter.flush(time.Now()) {
		due.write()
	}
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	d := *h
	d.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		d.bound = hashAttr(d.bound, a)
		if a.Key == PeerKey && !h.grouped {
			d.peer = host(a.Value)
		}
	}
	return &d
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	d := *h
	d.next = h.next.WithGroup(name)
	d.bound = hashText(d.bound, name)
	d.grouped = true
	return &d
}

// classify returns a line's kind and its peer, or "" without a peer.
func (h *Handler) classify(r *slog.Record) (k kind, peer string) {
	k, peer = kind{level: r.Level, message: r.Message}, h.peer
	if !h.grouped {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == PeerKey {
				peer = host(a.Value)
			}
			return true
		})
	}
	if peer == "" && (r.Level == slog.LevelInfo || r.Level >= slog.LevelError) {
		k.exact, k.attrs = true, h.bound
		r.Attrs(func(a slog.Attr) bool {
			k.attrs = hashAttr(k.attrs, a)
			return true
		})
	}
	return k, peer
}

var seed = maphash.MakeSeed()

// hashAttr adds an attribute to the hash of those before it.
func hashAttr(before uint64, a slog.Attr) uint64 {
	return hashText(hashText(before, a.Key), a.Value.Resolve().String())
}

func hashText(before uint64, text string) uint64 {
	return maphash.Comparable(seed, struct {
		before uint64
		text   string
	}{before, text})
}

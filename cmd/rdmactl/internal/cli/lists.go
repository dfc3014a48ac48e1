package cli

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

// listAnswer is a page of a list. Its elements are the field with number 1.
type listAnswer interface {
	proto.Message
	GetNextPageToken() string
}

// mostOfPage is the most elements that rdmad gives at once of a list that only grows.
const mostOfPage = 1000

// pages gets a list page by page, and makes one answer of it. It ends when there are limit
// elements; a limit of 0 is none. req has a page_size and a page_token.
func pages[Q proto.Message, R listAnswer](ctx context.Context, conn grpc.ClientConnInterface, method unary[Q, R], req Q, limit uint32) (all R, err error) {
	c := newAPI(conn)
	if limit > 0 {
		setField(req, "page_size", min(limit, mostOfPage))
	}
	all, err = method(c, ctx, req)
	elements := all.ProtoReflect().Descriptor().Fields().ByNumber(1)
	for err == nil && all.GetNextPageToken() != "" {
		have := uint32(all.ProtoReflect().Get(elements).List().Len())
		if limit > 0 {
			if have >= limit {
				break
			}
			setField(req, "page_size", min(limit-have, mostOfPage))
		}
		setField(req, "page_token", all.GetNextPageToken())
		var next R
		if next, err = method(c, ctx, req); err == nil {
			setField(all, "next_page_token", "") // Merge keeps it if next has none
			proto.Merge(all, next)
		}
	}
	return all, err
}

// setField sets a field of a message by its name.
func setField(m proto.Message, name protoreflect.Name, value any) {
	m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName(name), protoreflect.ValueOf(value))
}

// askPages is pages with a connection of its own.
func askPages[Q proto.Message, R listAnswer](ctx context.Context, a *app, method unary[Q, R], req Q, limit uint32) (all R, err error) {
	err = a.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		all, err = pages(ctx, conn, method, req, limit)
		return err
	})
	return all, err
}

// showList prints a list, or the first limit elements of it.
func showList[Q proto.Message, R listAnswer](ctx context.Context, a *app, method unary[Q, R], req Q, limit uint32, table func(R) *output.Table) error {
	all, err := askPages(ctx, a, method, req, limit)
	if err != nil {
		return err
	}
	p := a.printer()
	if err := p.Answer(all, func() *output.Table { return table(all) }); err != nil || all.GetNextPageToken() == "" {
		return err
	}
	return p.Note("there are older ones: --limit 0 shows all")
}

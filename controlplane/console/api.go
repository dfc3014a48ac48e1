package console

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/rdmad/rdmad/controlplane/console/session"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// withheld is the one service that sessions cannot use: a session that could
// begin another one would never end.
const withheld = "rdmad.v1.ConsoleService"

// compressed is the least number of bytes of an answer for which compression is worth its time.
const compressed = 4 << 10

// api serves every method of the API to sessions.
func (s *Server) api(mux *http.ServeMux) {
	const apiPackage = "rdmad.v1"
	protoregistry.GlobalFiles.RangeFilesByPackage(apiPackage, func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			if service.FullName() == withheld {
				continue
			}
			for j := range service.Methods().Len() {
				m := service.Methods().Get(j)
				path := "/" + string(service.FullName()) + "/" + string(m.Name())
				mux.Handle("POST "+path, s.session(s.method(m, path)))
			}
		}
		return true
	})
}

// A file of the API must be linked for its services to be known.
var _ = rdmadv1.File_rdmad_v1_access_proto

type sessionKey struct{}

// session lets requests of a session through.
func (s *Server) session(next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := s.sessions.Use(s.secret(r), browser(r))
		if c == nil {
			_ = refuse.Write(w, r, s.noSession(r)) // the browser is gone
			return
		}
		defer c.Done()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, c)))
	})
}

// conn is the connection of a request's session to the control plane.
func conn(ctx context.Context) *grpc.ClientConn {
	return ctx.Value(sessionKey{}).(*session.Session).Conn
}

// method forwards one method.
func (s *Server) method(m protoreflect.MethodDescriptor, path string) http.Handler {
	f := forward{path, func() *answer { return &answer{of: m.Output(), answers: &s.answers} }}
	options := []connect.HandlerOption{
		connect.WithCodec(jsonCodec{"json"}), connect.WithCodec(jsonCodec{"json; charset=utf-8"}), connect.WithCodec(protoCodec{}),
		connect.WithSchema(m), connect.WithReadMaxBytes(maxRequest), connect.WithCompressMinBytes(compressed),
		connect.WithRequestInitializer(func(spec connect.Spec, msg any) error {
			*msg.(*dynamicpb.Message) = *dynamicpb.NewMessage(spec.Schema.(protoreflect.MethodDescriptor).Input())
			return nil
		}),
	}
	if m.IsStreamingServer() {
		return connect.NewServerStreamHandler(path, func(ctx context.Context, req *connect.Request[dynamicpb.Message], to *connect.ServerStream[answer]) error {
			return toConnect(f.stream(ctx, req.Msg, to))
		}, options...)
	}
	return connect.NewUnaryHandler(path, func(ctx context.Context, req *connect.Request[dynamicpb.Message]) (*connect.Response[answer], error) {
		res, err := f.call(ctx, req.Msg)
		return connect.NewResponse(res), toConnect(err)
	}, options...)
}

// forward forwards the requests of a method.
type forward struct {
	path   string
	answer func() *answer // makes one to receive
}

// raw makes gRPC leave the answers of a call encoded.
var raw = grpc.ForceCodecV2(codec{encoding.GetCodecV2(encodingproto.Name)})

func (f *forward) call(ctx context.Context, req *dynamicpb.Message) (*answer, error) {
	res := f.answer()
	return res, conn(ctx).Invoke(ctx, f.path, req, res, raw)
}

// stream forwards a stream of answers. Only when the browser took one is the
// next one read, so that the gRPC server notices a browser that does not read.
func (f *forward) stream(ctx context.Context, req *dynamicpb.Message, to *connect.ServerStream[answer]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := conn(ctx).NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, f.path, raw)
	if err != nil {
		return err
	}
	if err := from.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := from.CloseSend(); err != nil {
		return err
	}
	if _, err := from.Header(); err != nil {
		return err
	}
	// The browser knows from the header that nothing is missed from now on. Errors
	// have the status 200 too.
	to.ResponseHeader().Set("Rdmad-Stream", "begun")
	if err := to.Send(nil); err != nil {
		return err
	}
	for {
		res := f.answer()
		switch err := from.RecvMsg(res); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := to.Send(res); err != nil {
			return err
		}
	}
}

// toConnect gives an error of gRPC to a browser, with its details.
func toConnect(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	out := connect.NewError(connect.Code(st.Code()), errors.New(st.Message()))
	for _, d := range st.Details() {
		m, ok := d.(proto.Message)
		if !ok {
			continue
		}
		if detail, err := connect.NewErrorDetail(m); err == nil {
			out.AddDetail(detail)
		}
	}
	return out
}

// jsonCodec is JSON with the names that rdmactl prints, unset fields included.
type jsonCodec struct{ name string }

// Name implements connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c jsonCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend is called by connect in place of Marshal, with memory that connect uses again.
// So the result must be a copy.
func (jsonCodec) MarshalAppend(to []byte, m any) ([]byte, error) {
	a := m.(*answer)
	text, err := a.answers.json(a.of, a.encoded)
	return append(to, text...), err
}

// Unmarshal implements connect.Codec. Unknown fields are errors.
func (jsonCodec) Unmarshal(text []byte, m any) error {
	return protojson.Unmarshal(text, m.(proto.Message))
}

// protoCodec is protobuf, for clients that are no browsers.
type protoCodec struct{}

// Name implements connect.Codec.
func (protoCodec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (c protoCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend is like that of jsonCodec.
func (protoCodec) MarshalAppend(to []byte, m any) ([]byte, error) {
	return append(to, m.(*answer).encoded...), nil
}

// Unmarshal implements connect.Codec.
func (protoCodec) Unmarshal(b []byte, m any) error { return proto.Unmarshal(b, m.(proto.Message)) }

package cli

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

func newDebugChannelz(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "channelz",
		Short: "Show the connections of the control plane, with their streams",
		Long: `Show the servers and connections of rdmad's control plane: calls of each server,
and streams and messages of each connection. They come from gRPC's channelz
service. You need the role admin.`,
		Example: "  rdmactl debug channelz\n  rdmactl debug channelz --limit 0 -o json",
	}
	limit := limitFlag(cmd, "connections")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var all channelzReport
		err := a.call(cmd.Context(), func(ctx context.Context, conn *grpc.ClientConn) (err error) {
			all, err = channelzServers(ctx, channelz.NewChannelzClient(conn), int(*limit))
			return err
		})
		if err != nil {
			return err
		}
		return a.printer().Answer(&all, func() *output.Table { return channelzTable(&all) })
	}
	return cmd
}

// channelzReport is what JSON shows.
type channelzReport struct {
	Servers []channelzServer `json:"servers"`
}

type channelzServer struct {
	ID             int64            `json:"id"`
	Listens        []string         `json:"listens"`
	CallsStarted   int64            `json:"calls_started"`
	CallsSucceeded int64            `json:"calls_succeeded"`
	CallsFailed    int64            `json:"calls_failed"`
	LastCall       *time.Time       `json:"last_call"`
	Sockets        []channelzSocket `json:"sockets"`
	// More means that the server has more sockets than the limit.
	More bool `json:"more"`
}

type channelzSocket struct {
	ID               int64      `json:"id"`
	Local            string     `json:"local"`
	Remote           string     `json:"remote"`
	StreamsStarted   int64      `json:"streams_started"`
	StreamsSucceeded int64      `json:"streams_succeeded"`
	StreamsFailed    int64      `json:"streams_failed"`
	StreamsOpen      int64      `json:"streams_open"`
	MessagesReceived int64      `json:"messages_received"`
	MessagesSent     int64      `json:"messages_sent"`
	KeepAlivesSent   int64      `json:"keep_alives_sent"`
	LastStream       *time.Time `json:"last_stream"`
	LastReceived     *time.Time `json:"last_received"`
	LastSent         *time.Time `json:"last_sent"`
}

// channelzServers asks for all servers, each with at most limit sockets, 0 for all.
func channelzServers(ctx context.Context, client channelz.ChannelzClient, limit int) (all channelzReport, err error) {
	for next := int64(0); ; {
		res, err := client.GetServers(ctx, &channelz.GetServersRequest{StartServerId: next})
		if err != nil {
			return all, err
		}
		for _, s := range res.GetServer() {
			one, err := channelzOf(ctx, client, s, limit)
			if err != nil {
				return all, err
			}
			all.Servers = append(all.Servers, one)
			next = one.ID + 1
		}
		if res.GetEnd() || len(res.GetServer()) == 0 {
			return all, nil
		}
	}
}

// channelzOf asks for the sockets of a server. One that has ended meanwhile is left out.
func channelzOf(ctx context.Context, client channelz.ChannelzClient, s *channelz.Server, limit int) (one channelzServer, err error) {
	d := s.GetData()
	one = channelzServer{
		ID: s.GetRef().GetServerId(), Listens: []string{}, Sockets: []channelzSocket{},
		CallsStarted: d.GetCallsStarted(), CallsSucceeded: d.GetCallsSucceeded(), CallsFailed: d.GetCallsFailed(), LastCall: moment(d.GetLastCallStartedTimestamp()),
	}
	for _, l := range s.GetListenSocket() {
		socket, err := channelzSocketOf(ctx, client, l)
		if status.Code(err) == codes.NotFound {
			continue
		}
		if err != nil {
			return one, err
		}
		one.Listens = append(one.Listens, socket.Local)
	}
	slices.Sort(one.Listens)
	for next := int64(0); ; {
		res, err := client.GetServerSockets(ctx, &channelz.GetServerSocketsRequest{ServerId: one.ID, StartSocketId: next})
		if err != nil {
			return one, err
		}
		for _, ref := range res.GetSocketRef() {
			if one.More = limit > 0 && len(one.Sockets) == limit; one.More {
				return one, nil
			}
			next = ref.GetSocketId() + 1
			socket, err := channelzSocketOf(ctx, client, ref)
			if status.Code(err) == codes.NotFound {
				continue
			}
			if err != nil {
				return one, err
			}
			one.Sockets = append(one.Sockets, socket)
		}
		if res.GetEnd() || len(res.GetSocketRef()) == 0 {
			return one, nil
		}
	}
}

func channelzSocketOf(ctx context.Context, client channelz.ChannelzClient, ref *channelz.SocketRef) (channelzSocket, error) {
	res, err := client.GetSocket(ctx, &channelz.GetSocketRequest{SocketId: ref.GetSocketId()})
	if err != nil {
		return channelzSocket{}, err
	}
	s := res.GetSocket()
	d := s.GetData()
	return channelzSocket{
		ID: ref.GetSocketId(), Local: channelzAddress(s.GetLocal()), Remote: channelzAddress(s.GetRemote()),
		StreamsStarted: d.GetStreamsStarted(), StreamsSucceeded: d.GetStreamsSucceeded(), StreamsFailed: d.GetStreamsFailed(),
		StreamsOpen:      d.GetStreamsStarted() - d.GetStreamsSucceeded() - d.GetStreamsFailed(),
		MessagesReceived: d.GetMessagesReceived(), MessagesSent: d.GetMessagesSent(), KeepAlivesSent: d.GetKeepAlivesSent(),
		LastStream: moment(d.GetLastRemoteStreamCreatedTimestamp()), LastReceived: moment(d.GetLastMessageReceivedTimestamp()), LastSent: moment(d.GetLastMessageSentTimestamp()),
	}, nil
}

// channelzAddress is an address as text; empty if gRPC does not know it.
func channelzAddress(a *channelz.Address) string {
	if tcp := a.GetTcpipAddress(); tcp != nil {
		if ip, ok := netip.AddrFromSlice(tcp.GetIpAddress()); ok {
			return netip.AddrPortFrom(ip.Unmap(), uint16(tcp.GetPort())).String()
		}
	}
	if unix := a.GetUdsAddress(); unix != nil {
		return unix.GetFilename()
	}
	return a.GetOtherAddress().GetName()
}

// moment is a time, or nil for one that never was.
func moment(t *timestamppb.Timestamp) *time.Time {
	if t == nil || t.AsTime().Unix() <= 0 {
		return nil
	}
	return new(t.AsTime())
}

func channelzTable(all *channelzReport) *output.Table {
	servers := &output.Table{Columns: []output.Column{
		{Name: "SERVER"},
		{Name: "LISTENS"},
		{Name: "CONNECTIONS", Right: true},
		{Name: "CALLS", Right: true},
		{Name: "SUCCEEDED", Right: true},
		{Name: "FAILED", Right: true},
		{Name: "LAST CALL", Drop: 1},
	}}
	sockets := &output.Table{Columns: []output.Column{
		{Name: "CONNECTION"},
		{Name: "SERVER", Drop: 3},
		{Name: "PEER"},
		{Name: "OPEN", Right: true},
		{Name: "STREAMS", Right: true},
		{Name: "FAILED", Right: true, Drop: 2},
		{Name: "RECEIVED", Right: true},
		{Name: "SENT", Right: true},
		{Name: "LAST STREAM", Drop: 1},
	}}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	for i := range all.Servers {
		s := &all.Servers[i]
		n := strconv.Itoa(len(s.Sockets))
		if s.More {
			n += "+"
		}
		servers.Row(number(s.ID), strings.Join(s.Listens, " "), n, number(s.CallsStarted), number(s.CallsSucceeded), number(s.CallsFailed), clockOf(s.LastCall))
		for j := range s.Sockets {
			c := &s.Sockets[j]
			sockets.Row(number(c.ID), number(s.ID), c.Remote, number(c.StreamsOpen), number(c.StreamsStarted), number(c.StreamsFailed),
				number(c.MessagesReceived), number(c.MessagesSent), clockOf(c.LastStream))
		}
	}
	servers.Next = sockets
	return servers
}

func clockOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(timestamppb.New(*t))
}

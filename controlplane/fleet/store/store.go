package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
)

// Timeout bounds each request to etcd.
const Timeout = 5 * time.Second

// redial is gRPC's default but for the longest wait, which would keep a node away for two
// minutes after an outage of etcd.
var redial = backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 15 * time.Second}

// Config has the place of a fleet in etcd.
type Config struct {
	Endpoints []string
	TLS       *tls.Config // nil for none
	Prefix    string      // of all keys; begins with '/' and does not end with it
	Node      string      // of this rdmad, for the history
	// Answers is the time that nodes have for an answer to a dry run, unless the client waits for
	// less; 0 for AnswerTime.
	Answers time.Duration
}

// Store is a fleet in etcd. Its methods may be called from any goroutine.
type Store struct {
	client *clientv3.Client
	prefix string // ends with '/'
	cfg    Config

	nodes    shared[*nodeList]
	newest   shared[[]*fleet.Revision]
	rollouts shared[[]*fleet.Rollout]
	changes  shared[[]*fleet.Entry]
}

// New makes a store. It does not wait for etcd.
func New(c Config) (*Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: c.TLS, DialTimeout: Timeout, DialKeepAliveTime: 2 * Timeout, DialKeepAliveTimeout: Timeout,
		PermitWithoutStream: true, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: Timeout})},
	})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return &Store{client: client, prefix: c.Prefix + "/", cfg: c}, nil
}

// Close ends all requests.
func (s *Store) Close() error { return s.client.Close() }

// Client returns the connection to etcd.
func (s *Store) Client() *clientv3.Client { return s.client }

// NodeKey returns the key of a node's presence.
func (s *Store) NodeKey(name string) string { return s.prefix + nodes + name }

// AssignmentKey returns the key of a node's assignment.
func (s *Store) AssignmentKey(name string) string { return s.prefix + assignments + name }

// StatusKey returns the key of a node's report.
func (s *Store) StatusKey(name string) string { return s.prefix + statuses + name }

// ElectionKey returns the prefix of the keys of the controller's election.
func (s *Store) ElectionKey() string { return s.prefix + election }

// Nodes returns the prefix of all nodes' presences.
func (s *Store) Nodes() string { return s.prefix + nodes }

// Policies returns the prefix of all policies.
func (s *Store) Policies() string { return s.prefix + policies }

func (s *Store) policyKey(r fleet.Ref) string { return s.prefix + policies + r.String() }

// Assignment is an assignment as etcd has it.
type Assignment struct {
	fleet.Assignment
	Cluster  uint64 // that answered
	Read     int64  // revision of etcd at which it was read
	Revision int64  // of the assignment; 0 for none
	Created  int64  // revision at which its key was made
	Err      error  // why the value can't be read
}

// Assignment reads a node's assignment, linearizably.
func (s *Store) Assignment(ctx context.Context, node string) (*Assignment, error) {
	res, err := s.get(ctx, s.AssignmentKey(node))
	if err != nil {
		return nil, err
	}
	a := &Assignment{Cluster: res.Header.ClusterId, Read: res.Header.Revision}
	for _, kv := range res.Kvs {
		a.Take(kv)
	}
	return a, nil
}

// Take decodes a key's value.
func (a *Assignment) Take(kv *mvccpb.KeyValue) {
	a.Revision, a.Created = kv.ModRevision, kv.CreateRevision
	a.Assignment, a.Err = decode(kv, strict.Unmarshal, fleetproto.Assignment)
}

// MissingError means that etcd does not have a policy, a version of it, or its rollout.
type MissingError struct {
	What string
	Ref  fleet.Ref // of revision 0 for a policy
}

func (e *MissingError) Error() string {
	if e.Ref.Revision == 0 {
		return e.What + " " + e.Ref.Policy + " is not in etcd"
	}
	return fmt.Sprintf("%s %s is not in etcd", e.What, e.Ref)
}

// Policy reads one version of a policy.
func (s *Store) Policy(ctx context.Context, ref fleet.Ref) (*fleet.Revision, error) {
	return one(ctx, s, s.policyKey(ref), &MissingError{"policy", ref}, s.DecodePolicy)
}

// share is the time of a request to etcd or to nodes: a client that waits for less has a fifth of its
// time left to read what they answered, or that they did not.
func share(ctx context.Context, most time.Duration) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(end)*4/5)
	}
	return most
}

// within bounds the time of a request to etcd.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, share(ctx, Timeout))
}

// get asks etcd for keys.
func (s *Store) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := within(ctx)
	defer cancel()
	return s.client.Get(ctx, key, opts...)
}

// one reads the value of a key.
func one[T any](ctx context.Context, s *Store, key string, missing error, decode func(*mvccpb.KeyValue) (*T, error)) (*T, error) {
	res, err := s.get(ctx, key)
	if err != nil {
		return nil, err
	}
	if len(res.Kvs) == 0 {
		return nil, missing
	}
	return decode(res.Kvs[0])
}

// values reads those of all keys under a prefix, and the revision of etcd at which it did.
func values[T any](ctx context.Context, s *Store, prefix string, decode func(*mvccpb.KeyValue) (*T, error)) (list []*T, revision int64, err error) {
	var bad error
	revision, err = s.List(ctx, prefix, func(kv *mvccpb.KeyValue) {
		v, err := decode(kv)
		bad = errors.Join(bad, err)
		list = append(list, v)
	})
	return list, revision, errors.Join(err, bad)
}

// DecodePolicy reads a version of a policy. Its key says the same name and revision.
func (s *Store) DecodePolicy(kv *mvccpb.KeyValue) (*fleet.Revision, error) {
	r, err := decode(kv, strict.Unmarshal, fleetproto.Revision)
	if err == nil && s.policyKey(r.Ref()) != string(kv.Key) {
		return nil, &ValueError{string(kv.Key), fmt.Errorf("the value is that of policy %s", r.Ref())}
	}
	return r, err
}

// DecodeNode reads a node's presence.
func (s *Store) DecodeNode(kv *mvccpb.KeyValue) (string, *fleet.Identity, error) {
	node, err := name(kv, s.Nodes())
	if err != nil {
		return "", nil, err
	}
	id, err := decode(kv, lenient, fleetproto.Presence)
	return node, id, err
}

// Page is how many keys one request lists.
const Page = 500

// List reads all keys under a prefix at one revision, which it returns.
func (s *Store) List(ctx context.Context, prefix string, take func(*mvccpb.KeyValue)) (revision int64, err error) {
	return s.listAt(ctx, prefix, 0, take)
}

// listAt reads all keys under a prefix at a revision, or at the newest one for 0.
func (s *Store) listAt(ctx context.Context, prefix string, revision int64, take func(*mvccpb.KeyValue)) (int64, error) {
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		res, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(Page), clientv3.WithRev(revision))
		if err != nil {
			return 0, err
		}
		revision = cmp.Or(revision, res.Header.Revision)
		for _, kv := range res.Kvs {
			take(kv)
		}
		if !res.More {
			return revision, nil
		}
		from = string(res.Kvs[len(res.Kvs)-1].Key) + "\x00"
	}
}

// AllPolicies reads all versions of all policies, and the revision of etcd at which it did.
func (s *Store) AllPolicies(ctx context.Context) ([]*fleet.Revision, int64, error) {
	return values(ctx, s, s.Policies(), s.DecodePolicy)
}

// Newest returns the newest version of each policy. Callers who come at the same time share the list.
func (s *Store) Newest(ctx context.Context) ([]*fleet.Revision, error) {
	return s.newest.get(ctx, func(ctx context.Context) ([]*fleet.Revision, error) {
		all, _, err := s.AllPolicies(ctx)
		if err != nil {
			return nil, err
		}
		return fleet.Newest(all), nil
	})
}

// Versions returns the revisions of a policy that etcd has, the newest first. The error is a
// *MissingError if there are none.
func (s *Store) Versions(ctx context.Context, policy string) ([]*fleet.Revision, error) {
	versions, _, err := values(ctx, s, s.Policies()+policy+"@", s.DecodePolicy)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, &MissingError{"policy", fleet.Ref{Policy: policy}}
	}
	slices.SortFunc(versions, func(a, b *fleet.Revision) int { return cmp.Compare(b.Revision, a.Revision) })
	return versions, nil
}

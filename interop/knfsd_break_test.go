package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// manyCalls is the number of credits that the server grants.
const manyCalls = 64

// nullFPDU is the size of a NULL call without a credential on the wire: MPA's
// length, the DDP and RDMAP header, the transport header, the RPC header and
// the CRC field, in bytes.
const nullFPDU = 2 + 18 + 28 + 40 + 4

// testManyCalls shows that 64 calls are in flight at once, and never more, by
// holding their replies back, and then that many calls that move data at the
// same time don't mix up.
func testManyCalls(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	r := newRelay(t, s.address)
	c := s.dial(ctx, t, p, r.address(), rpcrdma.DefaultSettings())
	null := func() error {
		_, err := (&nfsClient{Client: c.Client}).do(ctx, nfsCall{version: 3})
		return err
	}
	if err := null(); err != nil { // brings the grant
		t.Fatal(err)
	}
	before := r.hold(true)
	var wg sync.WaitGroup
	for range manyCalls + 6 {
		wg.Go(func() {
			if err := null(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := r.waitSent(ctx, before+manyCalls*nullFPDU); err != nil {
		t.Errorf("waiting for 64 calls to be sent: %v", err)
	}
	if sent := r.hold(false) - before; sent != manyCalls*nullFPDU {
		t.Errorf("without a reply %d bytes of calls were sent, want %d calls of %d", sent, manyCalls, nullFPDU)
	}
	wg.Wait()
	s.mixedCalls(ctx, t, c)
}

// mixedCalls writes and reads a file of its own in each of 64 goroutines.
func (s *kernelServer) mixedCalls(ctx context.Context, t *testing.T, c *nfsClient) {
	v := &v3{nfsClient: c, t: t, ctx: ctx, dir: nfsv3.NfsFh3{Data: s.root}}
	v.dir = v.mkdir("many")
	var files [manyCalls]nfsv3.NfsFh3
	for i := range files {
		files[i] = v.create(fmt.Sprintf("f%d", i))
	}
	var wg sync.WaitGroup
	for i, fh := range files {
		wg.Go(func() {
			if err := v.mixed(fh, noise(1+i*i*16, uint64(i))); err != nil {
				t.Errorf("file %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	checkCounters(t, c)
}

// mixed writes a file and reads it twice. It runs in goroutines and therefore
// does not end the test.
func (v *v3) mixed(fh nfsv3.NfsFh3, data []byte) error {
	if _, err := v.do(v.ctx, v3WriteCall(fh, data)); err != nil {
		return err
	}
	for range 2 {
		args := &nfsv3.Read3args{File: fh, Count: uint32(len(data))}
		stream, err := v.do(v.ctx, nfsCall{version: 3, proc: v3Read, args: args, maxReply: v3Reply, room: len(data)})
		if err != nil {
			return err
		}
		res, err := decodeAll(stream, nfsv3.ReadRead3res)
		if err != nil {
			return err
		}
		ok, isOK := res.(*nfsv3.Read3res_NFS3_OK)
		if !isOK {
			return errors.New(nfsv3.Nfsstat3_name[res.GetStatus()])
		}
		if !bytes.Equal(ok.Resok.Data, data) {
			return errors.New(firstDifference(data, ok.Resok.Data))
		}
	}
	return nil
}

// cuts is the number of connections that testCut cuts.
const cuts = 3

// testCut cuts the connection within the data of a WRITE. The client continues
// on a second connection.
func testCut(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	r := newRelay(t, s.address)
	t.Run("nfs 3", func(t *testing.T) { testCutV3(t, s, p, r) })
	t.Run("nfs 4.1", func(t *testing.T) { testCutV41(t, s, p, r) })
	t.Run("reconnect", func(t *testing.T) { testReconnect(t, s, p, r) })
}

func testCutV3(t *testing.T, s *kernelServer, p rdmacm.Provider, r *relay) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	v := &v3{nfsClient: s.dial(ctx, t, p, r.address(), rpcrdma.DefaultSettings()), t: t, ctx: ctx, dir: nfsv3.NfsFh3{Data: s.root}}
	fh := v.create("cut3")
	data := noise(1<<20, 3)
	r.cutAfter(int64(len(data) / 2))
	_, err := v.do(ctx, v3WriteCall(fh, data))
	mustBeCut(t, v.nfsClient, err)

	v.nfsClient = s.dial(ctx, t, p, r.address(), rpcrdma.DefaultSettings())
	if a := v.getattr(fh); a.Size != 0 {
		t.Errorf("the server wrote %d bytes of a WRITE of which it read only a part", a.Size)
	}
	v.write(fh, data)
	if got := v.read(fh, 0, len(data)); !bytes.Equal(got.Data, data) {
		t.Errorf("read back: %s", firstDifference(data, got.Data))
	}
	checkCounters(t, v.nfsClient)
}

// testCutV41 sends the WRITE again in the same slot: the session outlives the
// connection (RFC 8881 §2.10.2).
func testCutV41(t *testing.T, s *kernelServer, p rdmacm.Provider, r *relay) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	v := s.open41(ctx, t, s.dial(ctx, t, p, r.address(), rpcrdma.DefaultSettings()))
	f := v.open("cut41")
	data := noise(1<<20, 4)
	write, slot := f.write(data), v.next()
	slot.Opsequence.SaCachethis = true
	write.ops = append([]nfsv4.NfsArgop4{slot}, write.ops...)
	r.cutAfter(int64(len(data) / 2))
	_, err := v.send(write)
	mustBeCut(t, v.nfsClient, err)

	v.nfsClient = s.dial(ctx, t, p, r.address(), rpcrdma.DefaultSettings())
	for range 2 { // the second is answered from the slot's cache
		res := v.answer(write)
		if res.Status != nfsv4.NFS4_OK {
			t.Fatalf("WRITE, sent again: %v", nfsv4.Nfsstat4_name[res.Status])
		}
		wrote(t, res.Resarray[2], len(data))
	}
	got := as[*nfsv4.Read4res_NFS4_OK](t, as[*nfsv4.NfsResop4_OP_READ](t, v.must(f.read(len(data)))[1]).Opread).Resok4
	if !bytes.Equal(got.Data, data) {
		t.Errorf("read back: %s", firstDifference(data, got.Data))
	}
	v.close(f)
	v.end()
	checkCounters(t, v.nfsClient)
}

// testReconnect lets the client itself continue: the cut WRITE succeeds, and
// its caller does not notice.
func testReconnect(t *testing.T, s *kernelServer, p rdmacm.Provider, r *relay) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	c := s.dialWith(ctx, t, p, r.address(), rpcrdma.DialConfig{Reconnect: &rpcrdma.Reconnect{}})
	v := &v3{nfsClient: c, t: t, ctx: ctx, dir: nfsv3.NfsFh3{Data: s.root}}
	fh := v.create("reconnect")
	data := noise(1<<20, 5)
	r.cutAfter(int64(len(data) / 2))
	s.slowly(t, func() { v.write(fh, data) })
	if got := v.read(fh, 0, len(data)); !bytes.Equal(got.Data, data) {
		t.Errorf("read back: %s", firstDifference(data, got.Data))
	}
	if n, err := c.Info().Connects, c.Err(); n != 2 || err != nil {
		t.Errorf("the client connected %d times and ended with %v, want 2 connections and no end", n, err)
	}
}

// mustBeCut checks that a call failed because its connection ended.
func mustBeCut(t *testing.T, c *nfsClient, err error) {
	t.Helper()
	if _, ok := errors.AsType[*rpcrdma.Error](err); !ok {
		t.Fatalf("cut in the middle of a WRITE, the call returned %v, want the connection's end", err)
	}
	<-c.Done()
	if c.Err() == nil {
		t.Error("the connection ended in order, want an error")
	}
}

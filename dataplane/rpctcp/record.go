package rpctcp

import (
	"errors"
	"io"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// firstPart is how much memory a record gets when its first bytes have arrived. When
// firstPart bytes have arrived, it gets memory for the whole record.
const firstPart = 64 << 10

// readRecord reads a record that has begun into memory of the right size. The mark alone
// takes no memory: the record gets memory as its bytes arrive.
func (c *serverConn) readRecord(cl *call) error {
	if err := c.intake.Expect(oncrpc.RecordMarkSize); err != nil {
		return err
	}
	size, err := c.records.Next()
	if err != nil {
		return err
	}
	first := size
	if !c.records.Whole() {
		size = c.server.cfg.MaxRecord
	}
	if err := c.intake.Arrive(first); err != nil {
		return err
	}
	if cl.record, err = c.calls.get(c.ctx, min(size, firstPart)); err != nil {
		return err
	}
	cl.msg = cl.record.data[:0]
	if err = c.intake.Expect(size); err != nil {
		return err
	}
	done, err := c.fill(cl)
	if err != nil || done {
		return err
	}
	if err := c.grow(cl, size); err != nil {
		return err
	}
	_, err = c.fill(cl)
	return err
}

// grow moves a partly read record to memory for all of it. While it waits for that memory,
// the record is not charged: otherwise partly read records could wait for each other.
func (c *serverConn) grow(cl *call, size int) error {
	part := cl.record
	part.discharge()
	whole, err := c.calls.get(c.ctx, size)
	if err != nil {
		return err
	}
	cl.msg = whole.data[:copy(whole.data, cl.msg)]
	cl.record = whole
	part.Release()
	return c.intake.Again() // the peer did not cause the wait
}

// fill reads the rest of a record, as far as its memory allows. done means that the record
// is complete.
func (c *serverConn) fill(cl *call) (done bool, err error) {
	b, n := cl.record.data, len(cl.msg)
	for n < len(b) && err == nil {
		var m int
		m, err = c.records.ReadPart(b[n:])
		n += m
	}
	cl.msg = b[:n]
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	left, err := c.records.Fragment()
	return left == 0, err
}

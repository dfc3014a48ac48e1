package cli

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// revisionList answers with pages of at most 3 of 8 revisions.
type revisionList struct{ asked []uint32 }

func (l *revisionList) list(_ api, _ context.Context, req *rdmadv1.ListRevisionsRequest, _ ...grpc.CallOption) (*rdmadv1.ListRevisionsResponse, error) {
	if l.asked = append(l.asked, req.GetPageSize()); len(l.asked) > 8 {
		return nil, errors.New("asked again and again")
	}
	size := 3
	if n := int(req.GetPageSize()); n > 0 {
		size = min(size, n)
	}
	first, _ := strconv.Atoi(req.GetPageToken())
	res := &rdmadv1.ListRevisionsResponse{}
	for i := first; i < min(first+size, 8); i++ {
		res.Revisions = append(res.Revisions, &rdmadv1.Revision{Revision: uint32(i)})
	}
	if first+size < 8 {
		res.NextPageToken = strconv.Itoa(first + size)
	}
	return res, nil
}

// TestPages: an answer has each element once, no more than the limit, and says where it ends.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		limit uint32
		asked []uint32
		token string
	}{
		{0, []uint32{0, 0, 0}, ""},
		{2, []uint32{2}, "2"},
		{3, []uint32{3}, "3"},
		{5, []uint32{5, 2}, "5"},
		{8, []uint32{8, 5, 2}, ""},
		{20, []uint32{20, 17, 14}, ""},
		{5000, []uint32{mostOfPage, mostOfPage, mostOfPage}, ""},
	} {
		l := &revisionList{}
		all, err := pages(t.Context(), nil, l.list, &rdmadv1.ListRevisionsRequest{}, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		want := 8
		if c.limit > 0 {
			want = min(want, int(c.limit))
		}
		if len(all.GetRevisions()) != want || all.GetNextPageToken() != c.token || !slices.Equal(l.asked, c.asked) {
			t.Errorf("limit %d: %v, asked for %d", c.limit, all, l.asked)
		}
		for i, r := range all.GetRevisions() {
			if int(r.GetRevision()) != i {
				t.Errorf("limit %d: revision %d at place %d", c.limit, r.GetRevision(), i)
			}
		}
	}
}

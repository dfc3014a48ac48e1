package grpcapi

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// A page token names the last item of the page before, so that items added or
// removed between pages shift nothing. It has a hash of its list: a token of another
// list, or of the same list with other filters, is refused. The filters themselves could make it
// longer than requests take.

// pageToken is the token after last, of a list made with filters.
func pageToken(last string, filters ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(listHash(filters) + last))
}

// listHash is a short hash of a list's filters.
func listHash(filters []string) string {
	sum := sha256.Sum256([]byte(strings.Join(filters, "\x00")))
	return string(sum[:8])
}

// afterToken is what a token names; "" for the first page.
func afterToken(token string, filters ...string) (last string, err error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	last, ok := strings.CutPrefix(string(raw), listHash(filters))
	if err != nil || !ok {
		return "", errPageToken()
	}
	return last, nil
}

// sequenceAfter is the number that a token names, of some bits; 0 for the first page.
func sequenceAfter(token string, bits int, filters ...string) (uint64, error) {
	last, err := afterToken(token, filters...)
	if err != nil || last == "" {
		return 0, err
	}
	n, err := strconv.ParseUint(last, 10, bits)
	if err != nil {
		return 0, errPageToken()
	}
	return n, nil
}

// defaultPage is the items of a page when a request doesn't say.
const defaultPage = 100

// maxPage bounds a page, in bytes: if items are large, a page has fewer than the request asks for. It
// is half of what a gRPC client takes by default. A single item may be larger.
const maxPage = 2 << 20

// fill makes messages of the first items: at most size, and as many as a page has room for, but at least one. It
// reports whether there are more.
func fill[T any, M proto.Message](all []T, size int, message func(T) M) (page []M, more bool) {
	bytes := 0
	for _, one := range all {
		m := message(one)
		bytes += proto.Size(m)
		if len(page) == size || len(page) > 0 && bytes > maxPage {
			return page, true
		}
		page = append(page, m)
	}
	return page, false
}

// pageBefore makes messages of the items of a list that has the newest first, and the token of the
// next page. A token is the number, of some bits, of the last item before. list returns items before
// a number, and whether there are more.
func pageBefore[T any, M proto.Message](req pageRequest, bits int, filters []string, list func(before uint64, limit int) ([]T, bool, error), number func(T) uint64, message func(T) M) (out []M, next string, err error) {
	before, err := sequenceAfter(req.GetPageToken(), bits, filters...)
	if err != nil {
		return nil, "", err
	}
	all, more, err := list(before, cmp.Or(int(req.GetPageSize()), defaultPage))
	if err != nil {
		return nil, "", err
	}
	out, cut := fill(all, len(all), message)
	if more || cut {
		next = pageToken(strconv.FormatUint(number(all[len(out)-1]), 10), filters...)
	}
	return out, next, nil
}

func errPageToken() error {
	return invalidField("page_token", "is not one that this request got before; begin again without it")
}

// pageRequest asks for a page.
type pageRequest interface {
	GetPageSize() uint32
	GetPageToken() string
}

// pageOf makes messages of the items of a list that is in the order of names, and the token of the
// next page.
func pageOf[T any, M proto.Message](all []T, req pageRequest, most int, list string, name func(T) string, message func(T) M) (out []M, next string, err error) {
	after, err := afterToken(req.GetPageToken(), list)
	if err != nil {
		return nil, "", err
	}
	first := 0
	for first < len(all) && name(all[first]) <= after {
		first++
	}
	all = all[first:]
	out, more := fill(all, min(cmp.Or(int(req.GetPageSize()), most), most), message)
	if more {
		next = pageToken(name(all[len(out)-1]), list)
	}
	return out, next, nil
}

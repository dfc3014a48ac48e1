package grpcapi

import (
	"encoding/base64"
	"strings"
)

// A page token names the last thing of the page before, so that what comes
// and goes between pages shifts nothing. It says of which list it is: a token
// of another list, or of the same with other filters, is refused.

// pageToken is the token after last, of a list made with filters.
func pageToken(last string, filters ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(append(filters, last), "\x00")))
}

// afterToken is what a token names; "" for the first page.
func afterToken(token string, filters ...string) (last string, err error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(raw), "\x00")
	if err != nil || len(parts) != len(filters)+1 || strings.Join(parts[:len(filters)], "\x00") != strings.Join(filters, "\x00") {
		return "", invalidField("page_token", "is not one that this request got before; begin again without it")
	}
	return parts[len(filters)], nil
}

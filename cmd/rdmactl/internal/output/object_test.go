package output

import (
	"strings"
	"testing"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func TestAnswerFieldsHasThoseAlone(t *testing.T) {
	full := &rdmadv1.ListConnectionsResponse{NextPageToken: "next", Connections: []*rdmadv1.Connection{
		{Id: "1", Calls: 7, Extensions: []string{"msgp"}}, {Id: "2"},
	}}
	for _, c := range []struct {
		format, want string
		m            *rdmadv1.ListConnectionsResponse
	}{
		{FormatJSON, `{"connections":[{"id":"1","extensions":["msgp"],"calls":7},{"id":"2","extensions":[],"calls":0}],"next_page_token":"next"}`, full},
		{FormatJSON, `{"connections":[],"next_page_token":""}`, &rdmadv1.ListConnectionsResponse{}},
		{FormatYAML, "connections:\n  - id: \"1\"\n    extensions:\n      - msgp\n    calls: 7\n  - id: \"2\"\n    extensions: []\n    calls: 0\nnext_page_token: next\n", full},
	} {
		var out strings.Builder
		if err := NewPrinter(&out, c.format).AnswerFields(c.m, "connections", []string{"calls", "extensions", "id"}, nil); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if c.format == FormatJSON {
			got = strings.NewReplacer("\n", "", " ", "").Replace(got)
		}
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.format, got, c.want)
		}
	}
}

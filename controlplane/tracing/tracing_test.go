package tracing

import "testing"

func TestProblem(t *testing.T) {
	for endpoint, good := range map[string]bool{
		"http://127.0.0.1:4317": true, "https://collector.example.net:4317": true, "http://[::1]:4317": true,
		"": false, "127.0.0.1:4317": false, "http://collector": false, "http://:4317": false, "grpc://a:1": false,
		"http://a:1/v1/traces": false, "http://user@a:1": false, "http://a:1?x": false, "http://a:b": false,
	} {
		if text := Problem(endpoint); (text == "") != good {
			t.Errorf("%q: %q", endpoint, text)
		}
	}
}

// Package tracing sends traces of the control plane's calls to an OpenTelemetry collector.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Problem returns why an endpoint is not valid, or "".
func Problem(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Sprintf("%q is not http://HOST:PORT, nor https://HOST:PORT, which uses TLS", endpoint)
	}
	return ""
}

// Start returns a provider that sends its spans to a collector by OTLP over gRPC. A collector
// that is away holds up no call: spans wait in a queue of 2048, and further ones are dropped.
// The caller ends the provider with Shutdown, which sends what is left.
func Start(ctx context.Context, endpoint, version string, log *slog.Logger) (*trace.TracerProvider, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing.otlp_endpoint: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces are not sent", "endpoint", endpoint, "error", err)
	}))
	return trace.NewTracerProvider(
		trace.WithBatcher(exporter),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "rdmad"), attribute.String("service.version", version))),
	), nil
}

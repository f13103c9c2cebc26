package config

import (
	"net/url"

	"github.com/stoahub/stoa/internal/secret"
)

func telemetryFields() []field[Telemetry] {
	return []field[Telemetry]{
		textField("endpoint", "The http or https address of an OTLP receiver; `/v1/traces` is added where it is not there. Left out, `OTEL_EXPORTER_OTLP_ENDPOINT` decides; empty, nothing is sent. `${VAR}` is filled in.", expanded, func(t *Telemetry) *string { return &t.Endpoint }, checkEndpoint),
		secretsField("headers", "HTTP headers for every request to `endpoint`. They are never shown. `${VAR}` is filled in.", false, func(t *Telemetry) *map[string]secret.String { return &t.Headers }),
		numberField("sample", "The share of traces that is kept, of those that begin here; left out, all. One that a client began is kept as the client says.", 0, 1, func(t *Telemetry) **float64 { return &t.Sample }),
		textField("service", "What this hub is called in traces.", asWritten, func(t *Telemetry) *string { return &t.Service }, nil),
	}
}

func checkEndpoint(s string) (string, string) {
	if s == "" {
		return "", ""
	}
	// The address is not quoted: it may hold a key.
	if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "this is no http or https address", "write it as in http://127.0.0.1:4318"
	}
	return "", ""
}

// Secrets are what nobody is to be told of it.
func (t *Telemetry) Secrets() (all []secret.String) {
	for _, v := range t.Headers {
		all = append(all, v)
	}
	return all
}

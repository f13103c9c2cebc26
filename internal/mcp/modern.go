package mcp

import (
	"net/http"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// modern answers a POST of the modern era. As listen, it is on the stack for as
// long as a stream lasts.
func (x *exchange) modern(header string) {
	client := x.introduced(header)
	if client == nil {
		return
	}
	if x.continued() {
		return
	}
	ctx := x.r.Context()
	st := x.stream(ctx, true, nil)
	if x.m.Method == "subscriptions/listen" {
		x.listen(st, client)
		return
	}
	x.run(ctx, st, client)
}

// introduced is who sends a request; nil means that it is none that can be
// handled, and was answered.
func (x *exchange) introduced(header string) *Client {
	if x.m.IsResponse() {
		err := fault.New(fault.InvalidRequest, "", "a client of version %s sends no responses", ModernVersion)
		x.told.refused(x.m, nil, x.who, err)
		writeFault(x.w, nil, true, err)
		return nil
	}
	if x.m.IsNotification() {
		// The era defines none over HTTP; a stray one disturbs nobody.
		x.told.heard(x.m, &Client{Actor: x.actor()}, Asked{})
		x.w.WriteHeader(http.StatusAccepted)
		return nil
	}
	body, _ := wire.String(x.m.MetaValue(metaVersion))
	var client *Client
	err := checkVersionHeader(header, body)
	if err == nil || body == "" {
		client, err = modernClient(x.m)
	}
	if err == nil {
		err = checkHeaders(x.r.Header, x.m)
	}
	if err == nil {
		err = modernMethod(x.m.Method)
	}
	if err != nil {
		x.refuse(true, err)
		return nil
	}
	client.Actor = x.actor()
	return client
}

// modernClient reads who asks from the _meta of a modern request.
func modernClient(m *wire.Message) (*Client, error) {
	version, ok := wire.String(m.MetaValue(metaVersion))
	if !ok {
		return nil, fault.New(fault.InvalidParams, "_meta", "%q is missing or not a string", metaVersion)
	}
	if EraOf(version) != Modern {
		return nil, badVersion(version)
	}
	caps := m.MetaValue(metaClientCaps)
	if len(caps) == 0 || caps[0] != '{' {
		return nil, fault.New(fault.InvalidParams, "_meta", "%q is missing or not an object", metaClientCaps)
	}
	return &Client{Era: Modern, Version: version, Info: m.MetaValue(metaClientInfo), Capabilities: caps}, nil
}

func badVersion(version string) error {
	return fault.New(fault.BadVersion, "", "protocol version %q is not supported", version).
		With("supported", Versions).With("requested", version)
}

func checkVersionHeader(header, body string) error {
	switch header {
	case body:
		return nil
	case "":
		return fault.New(fault.HeaderMismatch, "MCP-Protocol-Version", "the header is missing; the body says %q", body)
	}
	return fault.New(fault.HeaderMismatch, "MCP-Protocol-Version", "the header says %q, the body says %q", header, body)
}

// modernMethod refuses methods that the modern era has dropped. What is left
// is for the handler to know.
func modernMethod(method string) error {
	switch method {
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return unknownMethod(method, ModernVersion)
	}
	return nil
}

func unknownMethod(method, version string) error {
	return fault.New(fault.UnknownMethod, "", "method %q does not exist in protocol version %s", method, version).With("supported", Versions)
}

package mcp

import (
	"strconv"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/wire"
)

// Untag removes what ties a notification to one subscription of ours.
func Untag(params []byte) []byte {
	meta := wire.Get(params, "_meta")
	if wire.Get(meta, metaSubscription) == nil {
		return params
	}
	meta = wire.Edit(nil, meta, wire.Change{Name: metaSubscription})
	if string(meta) == "{}" {
		meta = nil
	}
	return wire.Edit(nil, params, wire.Change{Name: "_meta", Value: meta})
}

// Translate turns the answer of a server of the other era into one for c.
func Translate(method string, resp Response, c *Client) (Response, error) {
	to := c.Era
	if resp.Error != nil {
		return translateError(resp, c), nil
	}
	if len(resp.Result) == 0 || resp.Result[0] != '{' {
		return resp, nil
	}
	if method == "tools/list" {
		if defined := defineAll(to, resp.Result); len(defined) != len(resp.Result) { // it only takes away
			resp = Response{Result: defined}
		}
	}
	if to == Modern {
		return Response{Result: Complete(method, resp.Result)}, nil
	}
	fields := wire.Members(resp.Result)
	var changes []wire.Change
	for _, f := range fields {
		switch string(f.Name) {
		case "resultType":
			if kind, _ := wire.String(f.Value); kind != "complete" {
				return Response{}, &fault.Error{Kind: fault.MissingCapability, Subject: method,
					Msg:  "the server needs input from the client, which it asks for in a way that protocol versions before " + ModernVersion + " do not have",
					Hint: "Use a client that speaks " + ModernVersion + "."}
			}
			changes = append(changes, wire.Change{Name: "resultType"})
		case "structuredContent":
			if f.Value[0] != '{' { // the era knows objects only
				changes = append(changes, wire.Change{Name: "structuredContent"})
			}
		case "ttlMs", "cacheScope":
			if cacheable(method) {
				changes = append(changes, wire.Change{Name: string(f.Name)})
			}
		}
	}
	if changes == nil {
		return resp, nil
	}
	return Response{Result: wire.EditFields(nil, fields, changes...)}, nil
}

// Complete adds to a result what the modern era demands of a complete one,
// where it is not there.
func Complete(method string, result []byte) []byte {
	fields := wire.Members(result)
	var changes []wire.Change
	missing := func(name, value string) {
		for _, f := range fields {
			if string(f.Name) == name {
				return
			}
		}
		changes = append(changes, wire.Change{Name: name, Value: []byte(value)})
	}
	missing("resultType", `"complete"`)
	if cacheable(method) {
		missing("ttlMs", "0")
		missing("cacheScope", `"private"`)
	}
	if changes == nil {
		return result
	}
	return wire.EditFields(nil, fields, changes...)
}

// translateError turns the codes that only one era has into what the other
// says instead.
func translateError(resp Response, c *Client) Response {
	code := func(n string) Response {
		return Response{Error: wire.Edit(nil, resp.Error, wire.Change{Name: "code", Value: []byte(n)})}
	}
	switch n := errorCode(resp.Error); {
	case c.Era == Modern && n == codeNoResource:
		return code("-32602")
	case c.Era == Modern && n == codeNeedsURL:
		if result := demandURL(resp.Error); result != nil && c.Can(Addresses) {
			return Response{Result: result}
		}
		return code("-32021")
	case c.Era == Legacy && n <= -32020 && n >= -32022:
		// What the hub sent was at fault, or what the client cannot give;
		// the era has no codes for it, and the message says it.
		return code("-32603")
	}
	return resp
}

const (
	codeNoResource = -32002
	codeNeedsURL   = -32042 // the legacy server wants the user to visit addresses first
)

// demandURL renders the addresses of a legacy error as a demand for input.
func demandURL(object []byte) []byte {
	elements, ok := wire.Elements(wire.Get(wire.Get(object, "data"), "elicitations"))
	if !ok || len(elements) == 0 {
		return nil
	}
	requests := []wire.Change{}
	for i, e := range elements {
		if e[0] != '{' {
			return nil // nothing that a client could be asked
		}
		entry := []byte(`{"method":"elicitation/create","params":`)
		entry = append(append(entry, ModernQuestion("elicitation/create", e)...), '}')
		requests = append(requests, wire.Change{Name: "url" + strconv.Itoa(i+1), Value: entry})
	}
	return wire.Edit(nil, []byte(`{"resultType":"input_required"}`), wire.Change{Name: "inputRequests", Value: wire.Edit(nil, []byte("{}"), requests...)})
}

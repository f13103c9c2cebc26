package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// endMark closes every payload: an answer that holds it echoed the whole text.
const endMark = "END-OF-ECHO"

const firstID = 1_000_000_000 // ten digits, so that ids never change a length

// payload is a text of n bytes that JSON needs not escape.
func payload(n int) string {
	return strings.Repeat("a", max(n-len(endMark), 0)) + endMark
}

// endpoint is where requests go.
type endpoint struct {
	Address string `json:"address"`
	Path    string `json:"path"`
}

// post is a whole HTTP request; headers are complete lines.
func (e endpoint) post(headers, body string) []byte {
	return []byte("POST " + e.Path + " HTTP/1.1\r\nHost: " + e.Address +
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" + headers +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// bodyless is a request of another method.
func (e endpoint) bodyless(method, headers string) []byte {
	return []byte(method + " " + e.Path + " HTTP/1.1\r\nHost: " + e.Address + "\r\nAccept: text/event-stream\r\n" + headers + "\r\n")
}

func legacyHeaders(session string) string {
	return "MCP-Protocol-Version: " + legacyVersion + "\r\nMcp-Session-Id: " + session + "\r\n"
}

func modernHeaders(method, name string) string {
	h := "MCP-Protocol-Version: " + modernVersion + "\r\nMcp-Method: " + method + "\r\n"
	if name != "" {
		h += "Mcp-Name: " + name + "\r\n"
	}
	return h
}

const modernMeta = `"` + metaVersion + `":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`

func (e endpoint) initialize() []byte {
	return e.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+legacyVersion+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
}

func (e endpoint) initialized(session string) []byte {
	return e.post(legacyHeaders(session), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (e endpoint) listen() []byte {
	return e.post(modernHeaders("subscriptions/listen", ""),
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{`+modernMeta+`}}}`)
}

// callRequest is a prebuilt tools/call whose id, and progress token with it,
// are overwritten in place before each use.
type callRequest struct {
	bytes []byte
	marks []int // where the ten digits stand
	next  int
}

// toolsCall prebuilds a call. The session is empty in the modern era; stateful
// says whether the endpoint knows references and saveAs.
func (e endpoint) toolsCall(s scenario, tool, session string, stateful bool) *callRequest {
	id := strconv.Itoa(firstID)
	var meta []string
	if s.Era == modern {
		meta = append(meta, modernMeta)
	}
	if s.Progress {
		meta = append(meta, `"progressToken":`+id)
	}
	var metaMember string
	if len(meta) > 0 {
		metaMember = `,"_meta":{` + strings.Join(meta, ",") + `}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`,
		id, tool, s.arguments(stateful), metaMember)
	headers := modernHeaders("tools/call", tool)
	if s.Era == legacy {
		headers = legacyHeaders(session)
	}
	r := &callRequest{bytes: e.post(headers, body), next: firstID}
	for at := 0; ; {
		i := bytes.Index(r.bytes[at:], []byte(id))
		if i < 0 {
			return r
		}
		r.marks = append(r.marks, at+i)
		at += i + len(id)
	}
}

// advance writes the next id into the request and returns the bytes to send;
// they are valid until the next call.
func (r *callRequest) advance() []byte {
	r.next++
	var digits [10]byte
	strconv.AppendInt(digits[:0], int64(r.next), 10)
	for _, at := range r.marks {
		copy(r.bytes[at:], digits[:])
	}
	return r.bytes
}

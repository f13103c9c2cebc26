package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// handle is what a call does with the values of its Session. Only stateFace
// can: in the same scenario the other targets are sent what a client without
// values has to send, so that the row shows what the convenience costs.
type handle string

const (
	noHandle   handle = ""
	references handle = "refs"   // three arguments that stand for values of Size bytes
	saveAs     handle = "saveas" // the result is kept; a card comes back
)

// stateSize is how long the values of these rows are.
const stateSize = 1 << 10

// referred are the arguments of a call with references. The upstream looks at
// the first alone, which it echoes.
var referred = []string{"text", "second", "third"}

// sessionPath is the stateful face for one connection: each has a Session of
// its own, as clients do.
func sessionPath(i int) string { return "/s/bench-" + strconv.Itoa(i) + "/mcp" }

func valueName(argument string) string { return "value_" + argument }

// arguments are those of a call in the scenario. A stateful call has
// references in place of the values, or a name for the result.
func (s scenario) arguments(stateful bool) string {
	text := strconv.Quote(payload(s.Size))
	switch {
	case s.Handle == references:
		var out []string
		for _, name := range referred {
			value := text
			if stateful {
				value = `"@` + valueName(name) + `"`
			}
			out = append(out, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(out, ",") + "}"
	case s.Handle == saveAs && stateful:
		return `{"text":` + text + `,"saveAs":"kept"}`
	}
	return `{"text":` + text + `}`
}

// store puts what the references stand for into the Session of the connection.
func (l load) store(c *client, mcpSession string) error {
	for i, name := range referred {
		args := fmt.Sprintf(`{"name":%q,"data":%q}`, valueName(name), payload(l.Size))
		if _, err := c.roundTrip(l.call(l.Era, i+1, "context_add", args, mcpSession)); err != nil {
			return fmt.Errorf("store a value: %w", err)
		}
		if !bytes.Contains(c.body, []byte(`"success":true`)) {
			return fmt.Errorf("store a value: %.300s", c.body)
		}
	}
	return nil
}

// call is a single tools/call.
func (e endpoint) call(of era, id int, tool, arguments, mcpSession string) []byte {
	meta, headers := "", legacyHeaders(mcpSession)
	if of == modern {
		meta, headers = `,"_meta":{`+modernMeta+`}`, modernHeaders("tools/call", tool)
	}
	return e.post(headers, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, id, tool, arguments, meta))
}

// checkCard checks in full that a body answers call id with the card of a kept
// echo. The preview of a value this short is all of it.
func checkCard(r response, body []byte, id int, s scenario) error {
	messages := [][]byte{body}
	if r.sse {
		messages = sseData(body)
	}
	if r.status != 200 || len(messages) != 1 {
		return fmt.Errorf("HTTP %d with %d messages: %.300s", r.status, len(messages), body)
	}
	var v struct {
		ID     int
		Result struct {
			IsError bool
			Meta    struct {
				Card struct {
					Name    string
					Size    int
					Preview string
				} `json:"stoa/card"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(messages[0], &v); err != nil {
		return fmt.Errorf("the answer: %w: %.300s", err, body)
	}
	card := v.Result.Meta.Card
	if v.ID != id || v.Result.IsError || card.Name != "kept" || card.Size != s.Size+2 || card.Preview != payload(s.Size) {
		return fmt.Errorf("the answer is not the card of the echo of call %d: %.600s", id, body)
	}
	return nil
}

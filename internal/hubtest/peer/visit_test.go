package peer

import (
	"fmt"
	"strings"
	"testing"
)

// A legacy peer sends the user to an address by a question, if the client
// declared that it can be asked so, or by an error.
func TestStdioAddresses(t *testing.T) {
	c := startChild(t, everything())
	c.send(strings.Replace(initLine, `"elicitation":{}`, `"elicitation":{"url":{}}`, 1))
	c.read()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.call("7", "visit", "{}")
	q := c.read()
	if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), `"elicitationId":"visit-7"`) || !strings.Contains(string(q.Params), `"mode":"url"`) {
		t.Fatalf("asked %s %s", q.Method, q.Params)
	}
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, q.ID))
	if m := c.read(); m.Method != "notifications/elicitation/complete" || !strings.Contains(string(m.Params), `"visit-7"`) {
		t.Errorf("after the answer: %s %s", m.Method, m.Params)
	}
	if got := toolText(t, c.read().Result); got != `{"action":"accept"}` {
		t.Errorf("visit: %s", got)
	}
	for _, who := range []string{`{"who":1}`, `{"who":2}`} {
		c.call("8", "gate", who)
		if m := c.read(); !strings.Contains(string(m.Error), `-32042`) || !strings.Contains(string(m.Error), address) {
			t.Errorf("gate for %s at first: %s %s", who, m.Error, m.Result)
		}
		c.call("9", "gate", who)
		if got := toolText(t, c.read().Result); got != "welcome" {
			t.Errorf("gate for %s again: %s", who, got)
		}
	}
}

func TestAddressesNeedTheirMode(t *testing.T) {
	c := startChild(t, everything())
	c.initialize()
	c.call("1", "visit", "{}")
	if got := toolText(t, c.read().Result); got != "the client does not support elicitation" {
		t.Errorf("visit: %s", got)
	}
}

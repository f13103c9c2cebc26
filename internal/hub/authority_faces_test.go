package hub_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/mcp"
)

// handshake is how a connection of the legacy era begins, and callLegacy how it
// calls a tool.
const handshake = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
	`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

func callLegacy(tool, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
}

// home is the server at whose address a tool is.
func home(server, tool string) string {
	if server != "" {
		return server
	}
	return map[string]string{"tools_batch": "stoa", "plan_execute": "plan"}[tool]
}

// talk sends messages over a socket of the hub, and returns what came until one
// of the words.
func (x *house) talk(path string, messages []string, until ...string) string {
	ctx, cancel := context.WithTimeout(x.t.Context(), await.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(x.URL, "http")+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + x.token}}})
	if err != nil {
		x.t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for _, m := range messages {
		if err := conn.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			x.t.Fatal(err)
		}
	}
	for all := ""; ; {
		_, b, err := conn.Read(ctx)
		if err != nil {
			x.t.Fatalf("%v after %s", err, all)
		}
		all += string(b)
		if slices.ContainsFunc(until, func(word string) bool { return bytes.Contains(b, []byte(word)) }) {
			return all
		}
	}
}

// pipe sends a message on a pipe, after what it begins with.
func (x *house) pipe(begin, message string) string {
	in, write, err := os.Pipe()
	if err != nil {
		x.t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- mcp.ServePipe(x.t.Context(), in, &out, x.ann, x.Stateful("work"), mcp.PipeOptions{Grace: await.Patience})
	}()
	_, err = write.WriteString(begin + message + "\n")
	write.Close()
	if served := <-done; err != nil || served != nil {
		x.t.Fatal(err, served)
	}
	return out.String()
}

// shared is a plan that the owner has published and shared, called by ann.
func (x *house) shared(tool, args string) string {
	owner := *x
	owner.token = x.Token
	id := fmt.Sprintf("s%d", x.n.Add(1))
	made := owner.modern("/s/work/mcp", "plan_create", fmt.Sprintf(`{"plan":%s,"publish":%q}`, planOf(tool, args), id))
	at := strings.Index(made, "plan__"+id)
	if at < 0 {
		return made
	}
	full, _, _ := strings.Cut(made[at:], `"`)
	full = strings.TrimRight(full, `\`)
	if status, raw := x.do(http.MethodPost, "/api/v1/plans/"+strings.TrimPrefix(full, "plan__")+"/share", `{"shared":true}`, x.Token); status != http.StatusOK {
		x.t.Fatalf("share %s: %d %s", full, status, raw)
	}
	said := x.modern("/s/work/mcp", full, "{}")
	if at := strings.Index(said, "run_"); at >= 0 {
		said += x.modern("/s/work/mcp", "plan_status", fmt.Sprintf(`{"sessionId":%q,"includeResults":true}`, said[at:at+24]))
	}
	return said
}

// approving says yes to all that is asked, until stop is called.
func approving(t *testing.T, x *house) (stop func()) {
	leave := attend(t, x.Hub, x.Token)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	ask := func(verb, path, body string) (raw []byte) {
		req, err := http.NewRequestWithContext(ctx, verb, x.URL+path, strings.NewReader(body))
		if err != nil {
			return nil
		}
		req.Header.Set("Authorization", "Bearer "+x.Token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		return b.Bytes()
	}
	go func() {
		defer close(done)
		for after := ""; ctx.Err() == nil; {
			var page struct {
				Approvals []struct{ ID string }
				Next      json.Number
			}
			if json.Unmarshal(ask(http.MethodGet, "/api/v1/approvals?wait=20s"+after, ""), &page) != nil {
				continue
			}
			for _, a := range page.Approvals {
				ask(http.MethodPost, "/api/v1/approvals/"+a.ID, `{"decision":"approve"}`)
			}
			after = "&after=" + page.Next.String()
		}
	}()
	return func() {
		cancel()
		<-done
		leave()
	}
}

// approvedOnce is a call that a person allows: the server gets it once, and its
// caller the answer.
func (x *house) approvedOnce(w way, wrap func(string, string, string) (string, string, string)) {
	x.t.Helper()
	mark := "mark-" + strings.ReplaceAll(x.t.Name(), "/", "-")
	s, tl, args := wrap("up", "gated", fmt.Sprintf(`{"x":%q}`, mark))
	answer := w.call(x, s, tl, args)
	n := 0
	for _, r := range x.peers["up"].Requests() {
		if r.Method == "tools/call" && bytes.Contains(r.Body, []byte(mark)) {
			n++
		}
	}
	if n != 1 {
		x.t.Errorf("it ran %d times: %.1500s", n, answer)
	}
}

package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// wire is an HTTP client of raw bytes.
type wire struct {
	t      *testing.T
	url    string
	client *http.Client
	header http.Header // sent with every request
}

func newWire(t *testing.T, h *HTTPServer) *wire {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &wire{t: t, url: h.URL, client: &http.Client{Transport: tr, Timeout: deadline},
		header: http.Header{"Accept": {"application/json, text/event-stream"}}}
}

// do sends one request; extra headers come in pairs.
func (w *wire) do(ctx context.Context, verb, body string, extra ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, verb, w.url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = w.header.Clone()
	for i := 0; i < len(extra); i += 2 {
		if extra[i+1] == "" {
			req.Header.Del(extra[i])
		} else {
			req.Header.Set(extra[i], extra[i+1])
		}
	}
	return w.client.Do(req)
}

// post returns the status and the messages of the response.
func (w *wire) post(body string, extra ...string) (int, []message) {
	w.t.Helper()
	resp, err := w.do(w.t.Context(), http.MethodPost, body, extra...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		w.header.Set("Mcp-Session-Id", id)
		w.header.Set("Mcp-Protocol-Version", Legacy)
	}
	var ms []message
	next := messages(w.t, resp)
	for m, err := next(); !errors.Is(err, io.EOF); m, err = next() {
		if err != nil {
			w.t.Fatalf("%d: %v", resp.StatusCode, err)
		}
		ms = append(ms, m)
	}
	return resp.StatusCode, ms
}

// messages reads a response message by message, whatever its form.
func messages(t *testing.T, resp *http.Response) func() (message, error) {
	t.Helper()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return func() (message, error) {
			b, err := io.ReadAll(resp.Body)
			if err != nil || len(b) == 0 {
				return message{}, errors.Join(err, io.EOF)
			}
			var m message
			err = json.Unmarshal(b, &m)
			return m, err
		}
	}
	lines := bufio.NewReader(resp.Body)
	return func() (message, error) {
		var data strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return message{}, err
			}
			line = strings.TrimRight(line, "\r\n")
			if d, ok := strings.CutPrefix(line, "data:"); ok {
				data.WriteString(strings.TrimPrefix(d, " ") + "\n")
			}
			if line == "" && strings.TrimSpace(data.String()) != "" {
				m, _, err := parse([]byte(data.String()))
				return m, err
			}
		}
	}
}

func (w *wire) initialize() {
	w.t.Helper()
	status, ms := w.post(initLine)
	if status != http.StatusOK || len(ms) != 1 || ms[0].Result == nil {
		w.t.Fatalf("initialize: %d %+v", status, ms)
	}
	if status, _ := w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		w.t.Fatalf("initialized: %d", status)
	}
}

func callLine(tool, meta string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `",` + meta + `}}`
}

// modernHeaders are those of a modern tools/call.
func modernHeaders(tool string) []string {
	return []string{"Mcp-Protocol-Version", Modern, "Mcp-Method", "tools/call", "Mcp-Name", tool}
}

func methods(ms []message) string {
	var names []string
	for _, m := range ms {
		names = append(names, strings.TrimPrefix(m.Method, "notifications/"))
	}
	return strings.Join(names, " ")
}

func postStatus(w *wire, body string, extra ...string) (int, string) {
	w.t.Helper()
	resp, err := w.do(w.t.Context(), http.MethodPost, body, extra...)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

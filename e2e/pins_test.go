package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/port"
)

// party is a client that may connect: what it can do decides what server-everything lists.
type party struct {
	modern bool
	path   string
	caps   string
	token  string
}

const modernVersion = "2026-07-28"

// send posts one message and returns the answer, be it JSON or an event stream.
func (p party) send(h hub, session, body string) (answer []byte, id string, err error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+h.address+p.path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	switch {
	case p.modern:
		request.Header.Set("MCP-Protocol-Version", modernVersion)
		var m struct {
			Method string
			Params struct{ Name string }
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			return nil, "", err
		}
		request.Header.Set("Mcp-Method", m.Method)
		if m.Params.Name != "" {
			request.Header.Set("Mcp-Name", m.Params.Name)
		}
	case session != "":
		request.Header.Set("Mcp-Session-Id", session)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%d %s", response.StatusCode, text)
	}
	for line := range bytes.Lines(text) { // the last event is the answer
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			answer = bytes.TrimSpace(data)
		}
	}
	if answer == nil {
		answer = text
	}
	return answer, response.Header.Get("Mcp-Session-Id"), err
}

// visit connects, reads the lists and leaves. It returns how many tools there were.
func (p party) visit(h hub) (tools int, err error) {
	session, meta := "", ""
	if p.modern {
		meta = fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}`, modernVersion, p.caps)
	} else {
		_, session, err = p.send(h, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"t","version":"1"}}}`, p.caps))
		if err != nil {
			return 0, err
		}
		if _, _, err = p.send(h, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			return 0, err
		}
		defer func() {
			request, failed := http.NewRequest(http.MethodDelete, "http://"+h.address+p.path, nil)
			if failed == nil {
				request.Header.Set("Mcp-Session-Id", session)
				if p.token != "" {
					request.Header.Set("Authorization", "Bearer "+p.token)
				}
				var response *http.Response
				if response, failed = client.Do(request); failed == nil {
					failed = response.Body.Close()
				}
			}
			err = errors.Join(err, failed)
		}()
	}
	for i, method := range []string{"tools/list", "prompts/list", "resources/templates/list"} {
		answer, _, err := p.send(h, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, i+2, method, meta))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", method, err)
		}
		var got struct {
			Result struct{ Tools []struct{ Name string } }
			Error  json.RawMessage
		}
		if err := json.Unmarshal(answer, &got); err != nil || got.Error != nil {
			return 0, fmt.Errorf("%s: %v %s", method, err, answer)
		}
		tools += len(got.Result.Tools)
	}
	return tools, nil
}

// TestPinsOfRealServers connects clients of both eras and of many capabilities to the published servers. They are given
// other lists, and no definition is said to have changed; nor is any of them suspicious. The long form, STOA_SOAK=1, has
// 1,000 connections.
func TestPinsOfRealServers(t *testing.T) {
	hubtest.Parallel(t)
	set := tools(t)
	n := 40
	if os.Getenv("STOA_SOAK") != "" {
		n = 1000
	}
	address := port.Address(t)
	everything := start(t, append(environment(t, set), "PORT="+address[strings.LastIndexByte(address, ':')+1:]), set.node, set.bin("mcp-server-everything"), "streamableHttp")
	url := "http://" + address + "/mcp"
	everything.await(t, "it listens", func() error {
		response, err := client.Get(url)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	servers := published(set, resolvedFolder(t), filepath.Join(t.TempDir(), "graph"))
	servers["web"] = server{URL: url}
	servers["own"] = server{URL: url, Sharing: "session"}
	h := startHub(t, set, servers)
	owner, err := os.ReadFile(filepath.Join(h.data, "token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(owner))
	caps := []string{`{}`, `{"sampling":{}}`, `{"elicitation":{"form":{}}}`, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`, `{"roots":{}}`, `{"roots":{},"sampling":{},"elicitation":{}}`}
	paths := []string{"/mcps/own/mcp", "/mcps/web/mcp", "/mcp", "/mcps/everything/mcp", "/mcps/own/mcp"}
	var mu sync.Mutex
	counts := map[int]int{}
	var failed []error
	next := make(chan int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range next {
				p := party{modern: i%2 == 1, path: paths[i%len(paths)], caps: caps[(i/2)%len(caps)]}
				if i%3 == 0 {
					p.token = token
				}
				tools, err := p.visit(h)
				mu.Lock()
				if err != nil {
					failed = append(failed, fmt.Errorf("connection %d to %s: %w", i, p.path, err))
				} else if p.path == "/mcps/own/mcp" {
					counts[tools]++
				}
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	if len(counts) < 2 {
		t.Errorf("every client was given as many tools: %v", counts)
	}
	t.Logf("%d connections; tools listed, by how many clients: %v", n, counts)
	request, err := http.NewRequest(http.MethodGet, "http://"+h.address+"/api/v1/definitions", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || strings.TrimSpace(string(text)) != `{"definitions":[]}` {
		t.Errorf("a false alarm: %v %s", err, text)
	}
}

package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// TestConsoleHome decides a call that waits, sees calls in the plots, and a server that was lost.
func TestConsoleHome(t *testing.T) {
	set := tools(t)
	chromium(t)
	up := peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "count", Behaviour: peer.Do(peer.Count)}, {Name: "echo"}}})
	h := startHub(t, set, map[string]server{"shop": {URL: up.URL}},
		map[string]any{"policy": map[string]any{"rules": []any{map[string]any{"tools": []string{"shop:count"}, "action": "ask", "reason": "counting is <b>costly</b>"}}}})
	c := openConsole(t, h, "")
	c.until(t, `document.querySelectorAll('.plot canvas').length === 2`)
	call := func() <-chan string {
		answer := make(chan string, 1)
		request, err := http.NewRequest("POST", "http://"+h.address+"/api/tools/shop__count", strings.NewReader(`{"why":"<i>me</i>"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.token)
		request.Header.Set("Content-Type", "application/json")
		go func() {
			response, err := client.Do(request)
			if err != nil {
				answer <- err.Error()
				return
			}
			defer response.Body.Close()
			var said struct {
				Success bool
				Code    string
			}
			err = json.NewDecoder(response.Body).Decode(&said)
			if answer <- said.Code; err != nil {
				return
			}
		}()
		return answer
	}
	first := call()
	c.until(t, `document.querySelector('[data-testid=approval]')?.innerText.includes('counting is <b>costly</b>') && document.querySelector('[data-testid=approval]').innerText.includes('<i>me</i>')`)
	c.screens(t, "home")
	c.click(t, by("approve"))
	if code := <-first; code != "SUCCESS" {
		t.Errorf("the approved call: %s", code)
	}
	c.until(t, `!document.querySelector('[data-testid=approval]')`)
	second := call()
	c.click(t, by("deny"))
	if code := <-second; code != "DENIED" {
		t.Errorf("the denied call: %s", code)
	}
	up.Kill()
	c.until(t, `document.querySelector('[data-testid=attention]').innerText.includes('shop')`)
}

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// cable is a way to the hub that can be cut.
type cable struct {
	net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool
	all  sync.WaitGroup
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &cable{Listener: l, open: map[net.Conn]bool{}}
	w.all.Go(func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", to)
			if err != nil {
				here.Close()
				continue
			}
			w.mu.Lock()
			w.open[here], w.open[there] = true, true
			w.mu.Unlock()
			pump := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // it ends when either side is closed
				to.Close()
				from.Close()
			}
			w.all.Go(func() { pump(here, there) })
			w.all.Go(func() { pump(there, here) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.cut()
		w.all.Wait()
	})
	return w
}

// cut breaks all connections there are; new ones can be made.
func (w *cable) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		c.Close()
	}
	clear(w.open)
}

// chatConsole is a hub whose model follows commands, a word at a time, with real files and a server to work with.
func chatConsole(t *testing.T, pace string) (h hub, up *peer.HTTPServer, dir string) {
	t.Helper()
	dir = t.TempDir()
	up = peer.Serve(t, peer.Spec{Tools: []peer.Tool{{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Hour}}}})
	h = startHub(t, tools(t), map[string]server{"up": {URL: up.URL}}, map[string]any{
		"modules": map[string]any{"file": map[string]any{"roots": []string{dir}}},
		"models":  map[string]any{"default": "told", "told": map[string]any{"provider": "script", "pace": pace}},
		"chat": map[string]any{"approvals": map[string]any{"default": "allow", "rules": []any{
			map[string]any{"tools": []string{"file_write"}, "action": "ask", "reason": "it writes a file"}}}},
	})
	return h, up, dir
}

// say types a message and sends it with Enter.
func (c console) say(t *testing.T, text string) {
	t.Helper()
	c.write(t, by("message"), text)
	c.do(t, chromedp.KeyEvent(kb.Enter))
}

const count = "document.querySelectorAll"

// idle waits until no turn runs and n have ended.
func (c console) idle(t *testing.T, session string, n int) {
	t.Helper()
	c.until(t, count+"("+quoted(by("user"))+").length >= "+fmt.Sprint(n))
	c.told(t, session, "user", n)
	c.until(t, "!document.querySelector("+quoted(by("abort"))+")")
}

// told waits until a conversation has so many messages of a role, and no turn is under way.
func (c console) told(t *testing.T, session, role string, n int) {
	t.Helper()
	await.Within(t, pageDeadline, fmt.Sprintf("%d messages of the %s are there, and no turn goes on", n, role), func() error {
		var got struct {
			Turn     *struct{}
			Messages []struct{ Role string }
		}
		status, text := c.answer(t, "GET", "/api/chat/"+session, "")
		if status == http.StatusNotFound {
			return errors.New("the page has not said anything yet")
		}
		if err := json.Unmarshal(text, &got); err != nil || status != http.StatusOK {
			t.Fatalf("the conversation: %d %s, %v", status, text, err)
		}
		have := 0
		for _, m := range got.Messages {
			if m.Role == role {
				have++
			}
		}
		if got.Turn != nil || have < n {
			return fmt.Errorf("the conversation: %s", text)
		}
		return nil
	})
}

// TestConsoleChat talks, watches calls, decides about them and stops them, and looks at what that does to files and servers.
func TestConsoleChat(t *testing.T) {
	hubtest.Parallel(t)
	chromium(t)
	h, up, dir := chatConsole(t, "1ms")
	c := openConsole(t, h, "chat")
	c.say(t, "echo **bold** and `code`")
	c.until(t, "document.querySelector("+quoted(by("assistant")+" strong")+")?.textContent === 'bold' && document.querySelector("+quoted(by("assistant")+" code")+")?.textContent === 'code'")
	c.until(t, "/^\\/console\\/chat\\/.+/.test(location.pathname)")
	var path string
	if err := json.Unmarshal([]byte(c.run(t, "return location.pathname")), &path); err != nil {
		t.Fatal(err)
	}
	session := strings.TrimPrefix(path, "/console/chat/")
	c.idle(t, session, 1)

	t.Run("a call and its card", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "todo.md"), []byte("buy <b>milk</b>\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.say(t, "call file_read path="+filepath.Join(dir, "todo.md"))
		card := by("call") + `[data-tool="file_read"]`
		c.until(t, "document.querySelector("+quoted(card+`[data-state="ok"]`)+")")
		c.click(t, card+" "+by("call-head"))
		c.until(t, "document.querySelector("+quoted(card+" "+by("arguments"))+")?.innerText.includes('todo.md')")
		if got := c.text(t, card+" "+by("result")); !strings.Contains(got, "buy <b>milk</b>") {
			t.Errorf("the result shows %q", got)
		}
		if got := c.text(t, card+" "+by("took")); !strings.Contains(got, "s") {
			t.Errorf("it took %q", got)
		}
		c.idle(t, session, 2)
	})

	file := filepath.Join(dir, "note.txt")
	write := func(text string) string {
		return fmt.Sprintf(`call file_write {"path":%q,"content":%q,"mode":"overwrite"}`, file, text)
	}
	reads := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		return string(text)
	}
	t.Run("deny", func(t *testing.T) {
		c.say(t, write("one"))
		c.until(t, "document.querySelector("+quoted(by("approval-args"))+")?.innerText.includes('one')")
		if got := c.text(t, by("approval")); !strings.Contains(got, "it writes a file") || !strings.Contains(got, file) {
			t.Errorf("the question is %q", got)
		}
		c.screens(t, "chat-approval")
		c.resized(t)
		c.write(t, by("reason"), "not now")
		c.click(t, by("deny"))
		c.until(t, "document.querySelector("+quoted(by("call")+`[data-state="denied"]`)+")")
		c.idle(t, session, 3)
		if reads() != "" {
			t.Errorf("the file has %q", reads())
		}
		if got := c.text(t, by("thread")); !strings.Contains(got, "not now") {
			t.Errorf("the reason is not shown: %s", got)
		}
	})
	t.Run("approve", func(t *testing.T) {
		c.say(t, write("two"))
		c.click(t, by("approve"))
		await.Until(t, "the file is written", func() bool { return reads() == "two" })
		c.idle(t, session, 4)
	})
	t.Run("edit", func(t *testing.T) {
		c.say(t, write("three"))
		c.click(t, by("edit"))
		c.write(t, by("approval-edit"), "{")
		c.until(t, "document.querySelector("+quoted(by("approve-edited"))+")?.disabled")
		c.write(t, by("approval-edit"), fmt.Sprintf(`{"path":%q,"content":"edited","mode":"overwrite"}`, file))
		c.click(t, by("approve-edited"))
		await.Until(t, "the file is written as edited", func() bool { return reads() == "edited" })
		c.idle(t, session, 5)
	})
	t.Run("remember", func(t *testing.T) {
		c.say(t, write("four"))
		c.choose(t, by("remember"), "session")
		c.click(t, by("approve"))
		await.Until(t, "the file is written", func() bool { return reads() == "four" })
		c.idle(t, session, 6)
		c.say(t, write("five"))
		await.Until(t, "the file is written without a question", func() bool { return reads() == "five" })
		c.idle(t, session, 7)
		if got := string(c.api(t, "GET", "/api/v1/approvals/remembered", "")); !strings.Contains(got, `"session"`) {
			t.Errorf("remembered: %s", got)
		}
	})
	t.Run("stop", func(t *testing.T) {
		c.say(t, "call up__slow")
		await.Until(t, "the tool runs", func() bool { return len(up.State().Called) == 1 })
		c.click(t, by("abort"))
		await.Until(t, "the tool was told to stop", func() bool { return len(up.State().Cancelled) == 1 })
		c.until(t, "document.querySelector("+quoted(by("call")+`[data-state="cancelled"]`)+")")
		c.idle(t, session, 8)
	})
	t.Run("views", func(t *testing.T) {
		c.click(t, by("view-trace"))
		c.until(t, count+"("+quoted(by("turn"))+").length === 8 && location.search === '?view=trace'")
		c.screens(t, "chat-trace")
		c.click(t, by("view-raw"))
		c.write(t, by("raw-find"), `"turn.ended"`)
		c.until(t, count+"("+quoted(by("raw")+" li")+").length === 8")
		c.screens(t, "chat-raw")
		c.click(t, by("meter")+" summary")
		if got := c.text(t, by("meter")); !strings.Contains(got, "tokens") || !strings.Contains(got, "Tools") {
			t.Errorf("the meter says %q", got)
		}
		c.click(t, by("view-chat"))
		c.screens(t, "chat")
	})
	t.Run("an old one", func(t *testing.T) {
		c.click(t, by("new-chat"))
		c.until(t, count+"("+quoted(by("user"))+").length === 0 && location.pathname === '/console/chat'")
		c.click(t, by("talk"))
		c.until(t, count+"("+quoted(by("user"))+").length === 8 && location.pathname === "+quoted(path))
	})
}

// resized makes the window narrow and wide again while a question waits, which stays in sight; who reads further up is
// left there.
func (c console) resized(t *testing.T) {
	t.Helper()
	const end = `innerHeight + scrollY >= document.documentElement.scrollHeight - 40`
	c.do(t, chromedp.EmulateViewport(1280, 500))
	c.settled(t)
	c.run(t, `scrollTo(0, document.documentElement.scrollHeight)`)
	c.settled(t)
	c.until(t, end)
	for _, width := range []int64{380, 1280, 380} {
		c.do(t, chromedp.EmulateViewport(width, 500))
		c.until(t, `innerWidth === `+fmt.Sprint(width)+` && scrollY > 0 && `+end)
		c.until(t, `(() => { const r = document.querySelector('[data-testid=deny]').getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()`)
	}
	c.settled(t)
	c.run(t, `scrollTo(0, 0)`)
	c.settled(t)
	c.do(t, chromedp.EmulateViewport(1280, 500))
	c.settled(t)
	if got := c.run(t, `return scrollY`); got != "0" {
		t.Errorf("who had scrolled up was taken to %s", got)
	}
	c.do(t, chromedp.EmulateViewport(1280, 900))
	c.settled(t)
}

// TestConsoleChatFile gives a file along and lets an agent answer.
func TestConsoleChatFile(t *testing.T) {
	hubtest.Parallel(t)
	chromium(t)
	h, _, dir := chatConsole(t, "0ms")
	c := openConsole(t, h, "chat/work")
	note := filepath.Join(dir, "facts.txt")
	if err := os.WriteFile(note, []byte("the sky is green"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.upload(t, by("file"), note)
	c.until(t, "document.querySelector("+quoted(by("attached"))+")?.innerText.includes('facts.txt')")
	c.choose(t, by("agent"), "news")
	c.until(t, "location.search === '?agent=news'")
	c.say(t, "echo look")
	c.idle(t, "work", 1)
	if got := string(c.api(t, "GET", "/api/v1/sessions/work/values/facts_txt", "")); !strings.Contains(got, "the sky is green") {
		t.Errorf("the session has %s", got)
	}
	c.click(t, by("view-trace"))
	if got := c.text(t, by("turn")); !strings.Contains(got, "as news") {
		t.Errorf("the trace shows %q", got)
	}
	c.click(t, by("view-chat"))
	c.until(t, "document.querySelector("+quoted(by("user"))+")")
	if got := c.text(t, by("user")); !strings.Contains(got, "to news") || !strings.Contains(got, "with the file") {
		t.Errorf("the message shows %q", got)
	}
}

// TestConsoleChatComesBack is cut off in the midst of an answer, more than once, and shows each word once.
func TestConsoleChatComesBack(t *testing.T) {
	hubtest.Parallel(t)
	chromium(t)
	h, _, _ := chatConsole(t, "10ms")
	w := newCable(t, h.address)
	through := h
	through.address = w.Addr().String()
	c := openConsole(t, through, "chat/long")
	c.hub = h // asks past the wire
	var words []string
	for i := range 300 {
		words = append(words, fmt.Sprintf("w%d", i))
	}
	c.say(t, "echo "+strings.Join(words, " "))
	for _, n := range []int{20, 100, 200} {
		c.until(t, "document.querySelector("+quoted(by("assistant"))+")?.textContent.includes('w"+fmt.Sprint(n)+" ')")
		w.cut()
	}
	c.until(t, "document.querySelector("+quoted(by("assistant"))+")?.textContent.includes('w299')")
	c.idle(t, "long", 1)
	if got := c.text(t, by("assistant")); got != strings.Join(words, " ") {
		t.Errorf("shown: %s", got)
	}
	// A message that is sent while the way is cut arrives once.
	w.cut()
	c.say(t, "echo again")
	c.idle(t, "long", 2)
	c.until(t, count+"("+quoted(by("user"))+").length === 2 && "+count+"("+quoted(by("assistant"))+").length === 2")
}

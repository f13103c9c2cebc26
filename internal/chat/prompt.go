package chat

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/wire"
)

// DefaultPrompt is the system prompt of a hub whose config has none.
const DefaultPrompt = "You are a helpful assistant. You answer questions and use tools where they help. " +
	"Say in a few words what you are doing when you use them, and put what you found into your own words."

// rules are what the host asks of every model that has tools.
const rules = "Rules for tools:\n" +
	"- Call tools by exactly the names they are listed under, with arguments that match their schema.\n" +
	"- The result of a call that failed says why. Repair the call, try another way, or tell the user.\n" +
	"- A call that the user has denied is not to be made again unless the user asks for it.\n" +
	"- Do not repeat a call whose result you already have."

// prompt is the system prompt: the base, the rules of the host, and what each
// server says of its tools. The tools themselves are given beside it.
func (t *turn) prompt() string {
	base := cmp.Or(t.agent.SystemPrompt, t.s.SystemPrompt, t.model.SystemPrompt, DefaultPrompt)
	if len(t.tools.tools) == 0 {
		return base
	}
	text := base + "\n\n" + rules + "\n\n" + t.tools.guide
	if own := t.instructions(); own != "" {
		text += "\n\n" + own
	}
	return text
}

// guidePrompt is the prompt by which a server tells how to use its tools.
const guidePrompt = "tool-descriptions"

// guides keeps what servers say of their tools, until what they offer changes.
type guides struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]string
	bad  map[*toolset]time.Time // those with guidance that could not be had, and when to try again
}

const (
	keptGuides   = 256
	guideTimeout = 5 * time.Second
	guideAgain   = time.Minute
	maxGuide     = 32 << 10
	maxNames     = 50
)

// due reports whether it is time to ask again for what could not be had.
func (g *guides) due(set *toolset) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	again, ok := g.bad[set]
	if !ok || time.Now().Before(again) {
		return false
	}
	delete(g.bad, set)
	return true
}

// guide puts together what the servers of a toolset say.
func (t *turn) guide(ctx context.Context, set *toolset, prompts [][]byte) string {
	var servers []string
	tools := map[string][]*Tool{}
	for _, tool := range set.tools {
		if tools[tool.Upstream] == nil {
			servers = append(servers, tool.Upstream)
		}
		tools[tool.Upstream] = append(tools[tool.Upstream], tool)
	}
	own := guidePrompts(prompts)
	texts := make([]string, len(servers))
	missed := make([]bool, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		name, def := own.of(server)
		if name == "" {
			texts[i] = fallback(server, tools[server])
			continue
		}
		wg.Go(func() {
			texts[i], missed[i] = t.guided(ctx, server, name, def, tools[server])
		})
	}
	wg.Wait()
	if slices.Contains(missed, true) {
		g := &t.e.guides
		g.mu.Lock()
		if g.bad == nil || len(g.bad) > keptGuides {
			g.bad = map[*toolset]time.Time{}
		}
		g.bad[set] = time.Now().Add(guideAgain)
		g.mu.Unlock()
	}
	set.guides = texts
	return strings.Join(texts, "\n\n")
}

// prompted are the prompts of that name, by their exposed names.
type prompted map[string][]byte

func guidePrompts(pages [][]byte) prompted {
	out := prompted{}
	for _, page := range pages {
		defs, _ := wire.Elements(wire.Get(page, "prompts"))
		for _, def := range defs {
			if name, _ := wire.String(wire.Get(def, "name")); name == guidePrompt || strings.HasSuffix(name, "__"+guidePrompt) {
				out[name] = def
			}
		}
	}
	return out
}

func (p prompted) of(server string) (string, []byte) {
	name := server + "__" + guidePrompt
	if server == ownServer {
		name = guidePrompt
	}
	if def := p[name]; def != nil {
		return name, def
	}
	return "", nil
}

// guided is guideOf on a goroutine that nobody else guards: what a server says
// of its tools must not take the hub down.
func (t *turn) guided(ctx context.Context, server, name string, def []byte, tools []*Tool) (text string, missed bool) {
	var err error
	defer func() {
		if err != nil {
			text, missed = fallback(server, tools), true
		}
	}()
	defer t.caught(&err)
	return t.guideOf(ctx, server, name, def, tools)
}

// guideOf returns what one server says, and whether it could not be asked.
func (t *turn) guideOf(ctx context.Context, server, name string, def []byte, tools []*Tool) (text string, missed bool) {
	g := &t.e.guides
	text = fallback(server, tools)
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%s", server, def)
	for _, tool := range tools {
		fmt.Fprintf(sum, "\x00%s\x00%s", tool.Tool.Name, tool.Description)
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	g.mu.Lock()
	said, ok := g.kept[key]
	g.mu.Unlock()
	if ok {
		return said, false
	}
	ctx, cancel := context.WithTimeout(ctx, guideTimeout)
	defer cancel()
	resp, err := t.handle(ctx, t.message("prompts/get", append(wire.AppendString([]byte(`{"name":`), name), '}'), mcp.Discard))
	if err != nil || resp.Error != nil {
		t.e.opts.Logger.Warn("the prompt about a server's tools could not be had", "upstream", server, "err", err)
		return text, true
	}
	defer resp.Release()
	if said, ok = promptText(resp.Result); ok {
		text = fmt.Sprintf("Guidance for Server %s, in its own words:\n%s", server, inOwnWords(server, said))
	} else {
		t.e.opts.Logger.Warn("the prompt about a server's tools is not one text of the user", "upstream", server)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept == nil || len(g.kept) >= keptGuides {
		g.kept = map[[sha256.Size]byte]string{}
	}
	g.kept[key] = text
	return text, false
}

// promptText is the text of a prompt that is one message, of the user, of text.
func promptText(result []byte) (string, bool) {
	messages, _ := wire.Elements(wire.Get(result, "messages"))
	if len(messages) != 1 {
		return "", false
	}
	role, _ := wire.String(wire.Get(messages[0], "role"))
	content := wire.Get(messages[0], "content")
	kind, _ := wire.String(wire.Get(content, "type"))
	text, ok := wire.String(wire.Get(content, "text"))
	if !ok || role != "user" || kind != "text" || strings.TrimSpace(text) == "" {
		return "", false
	}
	return shorten(text, maxGuide), true
}

// fallback is what is said of a server that says nothing itself: which tools are
// its own. What they do is in their definitions, and not said again.
func fallback(server string, tools []*Tool) string {
	var names []string
	for i, t := range tools {
		if strings.HasPrefix(t.Tool.Name, server+"__") {
			names = append(names, server+"__*")
		} else {
			names = append(names, t.Tool.Name)
		}
		if names = slices.Compact(names); len(names) > maxNames {
			names = append(names[:maxNames], fmt.Sprintf("and %d more", len(tools)-i))
			break
		}
	}
	return fmt.Sprintf("Guidance for Server %s:\nAvailable tools: %s", server, strings.Join(names, ", "))
}

// shorten cuts a text to at most about n bytes: its head and its tail, and how
// much is left out in between.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	head, tail := n*3/4, n/4
	if n < 1000 {
		return strings.ToValidUTF8(text[:n], "") + "…"
	}
	return strings.ToValidUTF8(text[:head], "") +
		fmt.Sprintf("\n[… %d bytes are left out here …]\n", len(text)-head-tail) +
		strings.ToValidUTF8(text[len(text)-tail:], "")
}

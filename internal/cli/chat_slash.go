package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/spell"
)

// slash is a command within a conversation.
type slash struct {
	name, args, help string
	do               func(t *talk, ctx context.Context, arg string) (left bool, err error)
}

func slashes() []slash {
	return []slash{
		{"/tools", "[FILTER]", "the tools that can be used here, or those that match", (*talk).slashTools},
		{"/context", "", "what the session keeps, and how full the model's memory is", (*talk).slashContext},
		{"/history", "", "what was said so far", (*talk).slashHistory},
		{"/sessions", "", "sessions there are", (*talk).slashSessions},
		{"/agents", "", "agents there are", (*talk).slashAgents},
		{"/agent", "[NAME]", "talk to this agent from now on; without a name, to none", (*talk).slashAgent},
		{"/new", "[SESSION]", "another conversation", (*talk).slashNew},
		{"/abort", "", "stop the answer, as Ctrl-C does", (*talk).slashAbort},
		{"/skip", "", "stop the call that runs; the answer goes on without it", (*talk).slashSkip},
		{"/help", "", "this", (*talk).slashHelp},
		{"/quit", "", "leave", func(*talk, context.Context, string) (bool, error) { return true, nil }},
	}
}

// slash does what a command asks for; left means that it asks to leave.
func (t *talk) slash(ctx context.Context, line string) (left bool, err error) {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	if name == "/exit" {
		name = "/quit"
	}
	var names []string
	for _, s := range slashes() {
		if s.name == name {
			return s.do(t, ctx, strings.TrimSpace(arg))
		}
		names = append(names, s.name)
	}
	hint := "Say /help to see what there is; begin with a space to say this to the model."
	if near := spell.Nearest(name, names); near != "" {
		hint = "Did you mean " + near + "? " + hint
	}
	return false, failed(exitUsage, hint, "there is no command %s", printable(name))
}

// completeSlash completes a command by the tabulator.
func completeSlash(line string, pos int, key rune) (string, int, bool) {
	if key != '\t' {
		return "", 0, false
	}
	if !strings.HasPrefix(line, "/") || pos != len(line) || strings.Contains(line, " ") {
		return line, pos, true // a tabulator is nothing to say
	}
	var found []string
	for _, s := range slashes() {
		if strings.HasPrefix(s.name, line) {
			found = append(found, s.name)
		}
	}
	if len(found) == 0 {
		return line, pos, true
	}
	common := found[0]
	for _, name := range found[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	if len(found) == 1 {
		common += " "
	}
	return common, len(common), true
}

func (t *talk) slashHelp(context.Context, string) (bool, error) {
	var rows [][]cell
	for _, s := range slashes() {
		rows = append(rows, []cell{{text: strings.TrimSpace(s.name + " " + s.args)}, {text: s.help, colour: dim}})
	}
	return false, t.std.table([]string{"COMMAND", "DOES"}, rows)
}

func (t *talk) slashTools(ctx context.Context, filter string) (bool, error) {
	face, err := t.sock.at().dial(ctx, "/s/"+url.PathEscape(t.session)+"/mcp")
	if err != nil {
		return false, fmt.Errorf("list tools: %w", err)
	}
	defer face.Close()
	all, err := face.offered(ctx, "tools/list", "tools")
	if err != nil {
		return false, fmt.Errorf("list tools: %w", err)
	}
	found := slices.DeleteFunc(all, func(raw json.RawMessage) bool { return !parseTool(raw).matches(filter) })
	return false, listTools(t.std, found, filter)
}

func (t *talk) slashContext(ctx context.Context, _ string) (bool, error) {
	path, err := sessionPath(t.session)
	if err != nil {
		return false, err
	}
	raw, err := t.sock.at().ask(ctx, http.MethodGet, path, nil, nil)
	switch f := describe(err); {
	case err == nil:
		err = showSession(t.std, raw)
	case f.code == exitUsage: // it holds nothing, so there is none yet
		err = t.std.text(t.session + " holds no values yet")
	}
	if err != nil {
		return false, fmt.Errorf("show the session: %w", err)
	}
	held, err := t.held(ctx)
	if err != nil {
		return false, err
	}
	return false, t.std.text(held.meter())
}

const unknownSession = -32001

// held asks what the hub has of this conversation.
func (t *talk) held(ctx context.Context) (held heldTalk, err error) {
	raw, err := t.sock.at().ask(ctx, http.MethodGet, "/api/chat/"+url.PathEscape(t.session), nil, nil)
	switch {
	case err == nil:
		err = json.Unmarshal(raw, &held)
	case describe(err).rpc == unknownSession:
		return held, nil // nothing was said yet
	}
	if err != nil {
		err = fmt.Errorf("show the conversation: %w", err)
	}
	return held, err
}

// meter tells how full the model's memory is, and what was used so far.
func (h *heldTalk) meter() string {
	text := h.Context.String()
	if h.Usage.Input+h.Usage.Output > 0 {
		text += fmt.Sprintf("\nused so far: %s tokens in, %s out", thousands(h.Usage.Input), thousands(h.Usage.Output))
	}
	if h.Cost > 0 {
		text += fmt.Sprintf(", cost %.4f", h.Cost)
	}
	return text
}

// String is the meter of a model's memory.
func (m *contextMeter) String() string {
	if m == nil {
		return "the model has not been asked yet"
	}
	parts := fmt.Sprintf("system %s, tools %s, history %s", thousands(m.System), thousands(m.Tools), thousands(m.History))
	if m.Limit <= 0 {
		return fmt.Sprintf("context: about %s tokens (%s); how many fit is not known", thousands(m.Used), parts)
	}
	const blocks = 20
	full := min(max(m.Used*blocks/m.Limit, 0), blocks)
	return fmt.Sprintf("context: [%s%s] about %s of %s tokens, %d%% (%s)", strings.Repeat("#", full), strings.Repeat("-", blocks-full), thousands(m.Used), thousands(m.Limit), m.Used*100/m.Limit, parts)
}

// thousands is a number with its digits in groups.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// shownAtStart is how much of a conversation is shown when it is taken up.
const shownAtStart = 10

func (t *talk) slashHistory(ctx context.Context, _ string) (bool, error) {
	held, err := t.held(ctx)
	for _, m := range held.Messages {
		t.view.past(m)
	}
	return false, err
}

// recall shows how a conversation ended that is taken up.
func (t *talk) recall() {
	list := t.past
	if n := len(list) - shownAtStart; n > 0 {
		t.view.hint(fmt.Sprintf("… %d earlier messages; /history shows all", n))
		list = list[n:]
	}
	for _, m := range list {
		t.view.past(m)
	}
}

func (t *talk) slashSessions(ctx context.Context, _ string) (bool, error) {
	raw, err := t.sock.at().ask(ctx, http.MethodGet, "/api/v1/sessions", nil, nil)
	if err != nil {
		return false, fmt.Errorf("list sessions: %w", err)
	}
	return false, showSessions(t.std, raw)
}

func (t *talk) slashAgent(_ context.Context, name string) (bool, error) {
	t.agent = name
	return false, nil
}

func (t *talk) slashAbort(context.Context, string) (bool, error) {
	if t.turn == "" && !t.busy() {
		return false, failed(exitUsage, "", "nothing is being answered")
	}
	t.abort()
	return false, nil
}

func (t *talk) slashSkip(context.Context, string) (bool, error) {
	if !t.skip() {
		return false, failed(exitUsage, "", "no call is running")
	}
	return false, nil
}

func (t *talk) slashNew(_ context.Context, session string) (bool, error) {
	if session != "" {
		if err := checkSession(session); err != nil {
			return false, err
		}
	}
	if t.turn != "" || t.busy() {
		return false, failed(exitUsage, "Stop it with /abort first.", "an answer is still coming")
	}
	t.begin(session)
	return false, nil
}

func (t *talk) slashAgents(ctx context.Context, _ string) (bool, error) {
	var all struct{ Agents []servedAgent }
	if err := t.look(ctx, "/mcps", &all); err != nil {
		return false, fmt.Errorf("list agents: %w", err)
	}
	var rows [][]cell
	for _, a := range all.Agents {
		if err := t.look(ctx, "/mcps/"+url.PathEscape(a.Name), &a); err != nil {
			return false, fmt.Errorf("list agents: %w", err)
		}
		if a.Transport != "chat" {
			continue // a server, which models use as tools
		}
		rows = append(rows, []cell{{text: a.Title}, {text: firstLine(a.Description), colour: dim}})
	}
	if len(rows) == 0 {
		t.std.note("there are no agents; the key agents of the config has them")
		return false, nil
	}
	return false, t.std.table([]string{"NAME", "DESCRIPTION"}, rows)
}

// servedAgent is what a hub says of one that it serves.
type servedAgent struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Transport   string `json:"transport"`
}

// look reads a document of the hub.
func (t *talk) look(ctx context.Context, path string, into any) error {
	hub := t.sock.at()
	_, raw, err := hub.get(ctx, path, hub.header())
	if err != nil {
		return lost(ctx, err)
	}
	return json.Unmarshal(raw, into)
}

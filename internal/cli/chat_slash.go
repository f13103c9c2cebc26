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
	face, err := t.hub.dial(ctx, "/s/"+url.PathEscape(t.sock.session)+"/mcp")
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
	path, err := sessionPath(t.sock.session)
	if err != nil {
		return false, err
	}
	raw, err := t.hub.ask(ctx, http.MethodGet, path, nil, nil)
	switch f := describe(err); {
	case err == nil:
		err = showSession(t.std, raw)
	case f.code == exitUsage: // it holds nothing, so there is none yet
		err = t.std.text(t.sock.session + " holds no values yet")
	}
	if err != nil {
		return false, fmt.Errorf("show the session: %w", err)
	}
	return false, t.std.text(t.meter.String())
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

func (t *talk) slashHistory(context.Context, string) (bool, error) {
	t.recall(len(t.past))
	return false, nil
}

// recall shows the last n messages.
func (t *talk) recall(n int) {
	list := t.past
	if len(list) > n {
		t.view.hint(fmt.Sprintf("… %d earlier messages; /history shows all", len(list)-n))
		list = list[len(list)-n:]
	}
	for _, m := range list {
		switch {
		case m.Kind == "start":
			var sent struct {
				Args json.RawMessage `json:"arguments"`
			}
			_ = json.Unmarshal(m.Data, &sent) // a call may have none
			t.view.tell("▸", bold, m.Tool+" "+oneLine(sent.Args))
		case m.Role == "tool":
			text := m.Content
			if text == "" {
				text = oneLine(m.Data)
			}
			t.view.tell("·", dim, m.Tool+": "+text)
		case m.Role == "user":
			t.view.close()
			t.view.answer.line(t.view.answer.paint(bold, "> "+t.view.answer.safe(m.Content)))
		default:
			t.view.say("text", m.Content)
			t.view.close()
		}
	}
}

func (t *talk) slashSessions(ctx context.Context, _ string) (bool, error) {
	raw, err := t.hub.ask(ctx, http.MethodGet, "/api/v1/sessions", nil, nil)
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
	_, raw, err := t.hub.get(ctx, "/mcps", t.hub.header())
	if err != nil {
		return false, fmt.Errorf("list agents: %w", lost(ctx, err))
	}
	var all struct {
		Agents []struct{ Name, Description, State string }
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return false, fmt.Errorf("list agents: %w", err)
	}
	var rows [][]cell
	for _, a := range all.Agents {
		rows = append(rows, []cell{{text: a.Name}, {text: a.State}, {text: firstLine(a.Description), colour: dim}})
	}
	return false, t.std.table([]string{"NAME", "STATE", "DESCRIPTION"}, rows)
}

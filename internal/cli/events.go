package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/event"
)

type eventsCmd struct {
	reach
	Server  string   `help:"Of this server only." placeholder:"NAME" aliases:"upstream"`
	Tool    string   `help:"Of this tool only, by its server's own name." placeholder:"NAME"`
	Session string   `help:"Of this session only." placeholder:"NAME"`
	Level   string   `help:"This important or more: debug, info, warning or error." placeholder:"LEVEL"`
	Type    []string `help:"These types, such as call.done, or families of them, such as upstream." placeholder:"TYPE"`
	Trace   string   `help:"Of this trace only: its 32 hexadecimal digits." placeholder:"ID"`
	Search  string   `help:"With this text anywhere in the record, in any case." placeholder:"TEXT"`
	Last    int      `help:"Print the last so many that the hub keeps, and end unless --follow is given." placeholder:"N"`
	Follow  *bool    `help:"Go on until Ctrl-C, which is what happens without --last; --no-follow prints all that is kept and ends." negatable:"" short:"f"`
	Raw     bool     `help:"Show what passed between the hub and a server, or a client, under the end of each call."`
	JSON    bool     `help:"Print JSON, one record a line." name:"json"`
}

func (c *eventsCmd) Help() string {
	return "Exchanges (--raw) and the beginning of calls are told while somebody watches, and 30 s after. A hub that is lost is waited for; what it kept meanwhile is shown when it is back, and what is lost is counted. " +
		"With --json a gap is a line of its own, {\"type\":\"gap\",\"lost\":N}, and so is a hub that was started anew, {\"type\":\"hello\",\"restarted\":true}; --raw adds \"exchange\" to the record."
}

// follows reports whether the command goes on after what is kept.
func (c *eventsCmd) follows() bool {
	if c.Follow != nil {
		return *c.Follow
	}
	return c.Last == 0
}

// remembers reports whether it shows what is kept.
func (c *eventsCmd) remembers() bool { return c.Last > 0 || !c.follows() }

func (c *eventsCmd) Run(ctx context.Context, s std) error {
	if c.Last < 0 {
		return failed(exitUsage, "", "--last %d: give a number from 1", c.Last)
	}
	// Said here, a mistake has a hint that knows the flags.
	if _, err := event.NewFilter(strings.Join(c.Type, ","), c.Server, c.Tool, c.Session, c.Level, c.Trace); err != nil {
		return failed(exitUsage, "Run stoa events --help to see what can be said.", "watch events: %w", err)
	}
	hub, err := c.alive(ctx, "nothing happens")
	if err != nil {
		return fmt.Errorf("watch events: %w", err)
	}
	defer hub.close()
	w := &eventWatch{s: s, cmd: c, hub: hub, needle: strings.ToLower(c.Search)}
	if c.remembers() {
		if err := w.kept(ctx); err != nil {
			return interrupted(ctx, fmt.Errorf("look at events: %w", err))
		}
	}
	if !c.follows() {
		return nil
	}
	return interrupted(ctx, w.follow(ctx))
}

// interrupted is the error of a command that is ended by Ctrl-C and has no
// other end.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// query says to the hub which records are wanted.
func (c *eventsCmd) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"types": strings.Join(c.Type, ","), "upstream": c.Server, "tool": c.Tool, "session": c.Session, "level": c.Level, "trace": c.Trace} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// eventWatch shows records, wherever they come from.
type eventWatch struct {
	s      std
	cmd    *eventsCmd
	hub    *client
	needle string

	name string // of the hub whose numbers these are
	last uint64 // the last record that was seen
	met  bool   // there is a number to go on after
}

// wanted reports whether a record has the text that is searched for.
func (w *eventWatch) wanted(raw []byte) bool {
	return w.needle == "" || bytes.Contains(bytes.ToLower(raw), []byte(w.needle))
}

// kept shows what the hub keeps, or the last of it.
func (w *eventWatch) kept(ctx context.Context) error {
	const most = 1000 // what the hub answers with at once
	q := w.cmd.query()
	q.Set("limit", strconv.Itoa(most))
	q.Set("wait", "0s")
	var found []json.RawMessage
	var lost uint64
	for {
		raw, err := w.hub.ask(ctx, http.MethodGet, "/api/v1/events", q, nil)
		if err != nil {
			return err
		}
		var page struct {
			Events    []json.RawMessage
			Gap, Next uint64
			Hub       string
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("the hub's answer: %w", err)
		}
		for _, e := range page.Events {
			if w.wanted(e) {
				found = append(found, e)
			}
		}
		w.name, w.last, w.met = page.Hub, page.Next, true
		lost += page.Gap
		if len(page.Events) < most {
			break
		}
		q.Set("after", strconv.FormatUint(page.Next, 10))
		q.Set("hub", page.Hub)
	}
	if n := w.cmd.Last; n > 0 && n < len(found) {
		found, lost = found[len(found)-n:], 0
	}
	if lost > 0 {
		if err := w.aside(fmt.Appendf(nil, `{"type":"gap","lost":%d}`, lost), plural(int(lost), "record")+" before these are not kept any more"); err != nil {
			return err
		}
	}
	if len(found) == 0 && !w.cmd.follows() {
		w.s.note("nothing that is like that is kept")
	}
	for _, e := range found {
		if err := w.show(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

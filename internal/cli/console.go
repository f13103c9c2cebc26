package cli

import (
	"context"
	"fmt"
	"net/url"

	"github.com/stoahub/stoa/internal/console"
)

type consoleCmd struct {
	files
	NoOpen bool `help:"Print the address only; open no browser."`
}

// Run opens the console of the hub that runs on the data folder. The token is
// in the part of the address that browsers send to nobody.
func (c *consoleCmd) Run(ctx context.Context, s std) error {
	cfg, _, err := c.load(nil)
	if err != nil {
		return err
	}
	r := reach{files: c.files}
	answers, err := r.running(ctx, cfg.Data)
	if err != nil {
		return err
	}
	if answers == nil {
		return failed(exitUnreachable, "Start one with stoa serve.", "no hub runs on %s", cfg.Data)
	}
	defer answers.close()
	at := answers.base.JoinPath("/console/")
	shown := at.String() + "#token=" + url.PathEscape(answers.token)
	if c.NoOpen || !isTerminal(s.out) || console.Open(ctx, shown) != nil {
		_, err := fmt.Fprintln(s.out, shown)
		return err
	}
	_, err = fmt.Fprintf(s.out, "opened %s\n", at)
	return err
}

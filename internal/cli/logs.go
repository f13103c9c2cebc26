package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/obs"
)

type logsCmd struct {
	files
	Follow bool          `help:"Go on with what is written, until Ctrl-C." short:"f"`
	Level  string        `help:"This level and those above it: trace, debug, info, warn or error." placeholder:"LEVEL"`
	Search string        `help:"Lines with this text in their message or in a fact (key=value), in any case." placeholder:"TEXT"`
	Limit  int           `help:"The last so many lines, up to 10,000." default:"100" placeholder:"N"`
	Since  time.Duration `help:"Lines of the last so much time, such as 10m or 48h." placeholder:"DURATION"`
	asJSON
}

func (c *logsCmd) Run(ctx context.Context, s std) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	dir, written, err := c.folder(s)
	if err != nil {
		return err
	}
	show := c.printer(s)
	records, err := obs.ReadFiles(dir, q)
	if errors.Is(err, obs.ErrNoFiles) {
		if !c.Follow || !written {
			return noLogs(dir, written)
		}
		s.note("there are no log files in %s yet; waiting for the first", dir)
	} else if err != nil {
		return &failure{err: err, hint: "Run this as the user whose hub it is.", code: exitFailed}
	}
	if c.Follow {
		return obs.Follow(ctx, dir, q, show)
	}
	for _, r := range slices.Backward(records) {
		if err := show(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *logsCmd) query(now time.Time) (q obs.Query, err error) {
	if c.Limit < 1 || c.Limit > obs.MaxLimit {
		return q, failed(exitUsage, "", "--limit %d: give a number from 1 to %d", c.Limit, obs.MaxLimit)
	}
	if c.Since < 0 {
		return q, failed(exitUsage, "", "--since %v: give a time that has passed, such as 10m", c.Since)
	}
	q = obs.Query{Search: c.Search, Limit: c.Limit}
	if c.Since > 0 {
		q.Since = now.Add(-c.Since)
	}
	if c.Level != "" {
		level, err := obs.ParseLevel(c.Level)
		if err != nil {
			return q, &failure{err: err, code: exitUsage}
		}
		q.Level = level
	}
	return q, nil
}

func (c *logsCmd) printer(s std) func(obs.Record) error {
	if !c.JSON {
		return obs.NewPrinter(s.out).Print
	}
	return func(r obs.Record) error {
		_, err := fmt.Fprintf(s.out, "%s\n", r.Line)
		return err
	}
}

// folder is where the log files are, and whether a hub writes any.
func (c *logsCmd) folder(s std) (dir string, written bool, err error) {
	cfg, _, err := c.load(nil)
	if err != nil {
		// A hub may be dead because of its files: its log is wanted all the more.
		plain, plainErr := c.withoutFiles()
		if plainErr != nil {
			return "", false, err
		}
		s.note("the config cannot be read, so its log folder is not known; `stoa config check` says why")
		cfg = plain
	}
	return hub.LogDir(cfg), cfg.Log.File.Enabled, nil
}

// withoutFiles is the config that the environment and the flags make.
func (c *logsCmd) withoutFiles() (*config.Config, error) {
	data := c.Data
	if data != "" {
		var err error
		if data, err = filepath.Abs(data); err != nil {
			return nil, err
		}
	}
	nowhere := filepath.Join(os.TempDir(), "stoa-"+rand.Text())
	cfg, _, err := config.Load(config.Options{Dir: nowhere, UserDir: nowhere, Data: data, Env: func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		switch name {
		case "MCP_JSON_PATH":
			return "", false
		case "AIUR_LOG_DIRECTORY", "STOA_DATA":
			if abs, err := filepath.Abs(value); value != "" && err == nil {
				value = abs
			}
		}
		return value, ok
	}})
	return cfg, err
}

func noLogs(dir string, written bool) error {
	hint := "`stoa serve` writes them. If it uses another folder, name that with --data or AIUR_LOG_DIRECTORY."
	if !written {
		hint = "They are switched off: set AIUR_ENABLE_FILE_LOGGING or log.file.enabled to true and start the hub again."
	}
	return &failure{err: fmt.Errorf("show the log: there are no log files in %s", dir), hint: hint, code: exitFailed}
}

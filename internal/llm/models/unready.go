package models

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/llm"
)

// unready is a model that cannot be asked until something is set.
type unready struct{ provider, model, missing string }

func (u unready) Stream(context.Context, llm.Request) iter.Seq2[llm.Delta, error] {
	return failing(&llm.Error{Cause: llm.Unset, Provider: u.provider, Model: u.model, Detail: u.missing})
}

func failing(err error) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) { yield(llm.Delta{}, err) }
}

// discovered is a model of a server that has no default one, and was named
// none: it asks the server what it has, and takes the first.
type discovered struct {
	provider config.Provider
	url      string // of the list
	opts     llm.Options
	make     func(id string) (llm.Model, error)

	mu    sync.Mutex
	found llm.Model
	id    string
}

const (
	listTimeout = 10 * time.Second
	listBytes   = 4 << 20
)

func (d *discovered) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		m, id, err := d.model(ctx)
		if err != nil {
			yield(llm.Delta{}, err)
			return
		}
		if req.Model == "" {
			req.Model = id
		}
		for delta, err := range m.Stream(ctx, req) {
			if !yield(delta, err) {
				return
			}
		}
	}
}

// model returns the model, which is looked for until it was found once.
func (d *discovered) model(ctx context.Context) (llm.Model, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found != nil {
		return d.found, d.id, nil
	}
	fail := func(cause llm.Cause, err error, format string, args ...any) error {
		return &llm.Error{Cause: cause, Provider: string(d.provider), Attempts: 1, Detail: fmt.Sprintf(format, args...), Err: err}
	}
	id, status, err := d.first(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, "", fail(llm.Cancelled, ctx.Err(), "")
	case err != nil:
		return nil, "", fail(llm.Network, err, "asking %s which models it has: %v", d.url, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return nil, "", fail(llm.Auth, nil, "%s answered with status %d", d.url, status)
	case status != http.StatusOK || id == "":
		return nil, "", fail(llm.Unset, nil, "no model is named, and %s names none (status %d): write models.%s.model into the config", d.url, status, d.provider)
	}
	m, err := d.make(id)
	if err != nil {
		return nil, "", fail(llm.Unset, err, "%v", err)
	}
	d.found, d.id = m, id
	return m, id, nil
}

// first asks for the list of models and returns the first.
func (d *discovered) first(ctx context.Context) (id string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return "", 0, err
	}
	for name, values := range d.opts.Header {
		r.Header[name] = values
	}
	if key := d.opts.APIKey.Reveal(); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	client := http.Client{}
	if d.opts.HTTP != nil {
		client = *d.opts.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // headers may hold keys
	resp, err := client.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, listBytes))
	if err != nil {
		return "", resp.StatusCode, err
	}
	var list struct {
		Models []struct{ Name string } // Ollama
		Data   []struct{ ID string }   // OpenAI
	}
	if json.Unmarshal(body, &list) == nil {
		switch {
		case len(list.Models) > 0:
			id = list.Models[0].Name
		case len(list.Data) > 0:
			id = list.Data[0].ID
		}
	}
	return id, resp.StatusCode, nil
}

var (
	_ llm.Model = unready{}
	_ llm.Model = (*discovered)(nil)
)

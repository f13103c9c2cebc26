package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/secret"
)

func TestSecretsOfAServer(t *testing.T) {
	s := Server{
		Env:     map[string]secret.String{"NODE_ENV": secret.New("production"), "GITHUB_TOKEN": secret.New("t"), "DB_PASSWORD": secret.New("p")},
		Headers: map[string]secret.String{"Accept": secret.New("text/html"), "Authorization": secret.New("Bearer a")},
	}
	var got []string
	for _, one := range s.Secrets() {
		got = append(got, one.Reveal())
	}
	if d := cmp.Diff([]string{"p", "t", "Bearer a"}, got); d != "" {
		t.Error(d)
	}
}

package config

import (
	"maps"
	"slices"

	"github.com/stoahub/stoa/internal/secret"
)

// Secrets are the values of the server's headers and variables that are named
// like secrets, so that they can be taken out of what is logged. Other values
// are as likely to be words of any line.
func (s *Server) Secrets() (all []secret.String) {
	for _, values := range []map[string]secret.String{s.Env, s.Headers} {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if secret.Named(name) {
				all = append(all, values[name])
			}
		}
	}
	return all
}

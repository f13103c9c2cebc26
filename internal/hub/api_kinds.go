package hub

import (
	"net/http"
	"strings"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/incident"
)

// errorKind is what a code of an error means. Only faults have a name and what
// follows it.
type errorKind struct {
	Code       string `json:"code"`
	Meaning    string `json:"meaning"`
	Hint       string `json:"hint"`
	Name       string `json:"name,omitempty"`
	Number     int    `json:"number,omitempty"`
	Legacy     int    `json:"legacy,omitempty"`
	Modern     int    `json:"modern,omitempty"`
	HTTP       int    `json:"http,omitempty"`
	ModernHTTP int    `json:"modernHttp,omitempty"`
	Retryable  bool   `json:"retryable"`
	Model      bool   `json:"model"`
}

// listErrorKinds tells what the codes of errors mean in this version: the table
// that docs/errors.md is made of, for those who have no manual at hand.
func (h *Hub) listErrorKinds(w http.ResponseWriter, r *http.Request, _ *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	var all []errorKind
	for _, i := range fault.Kinds() {
		all = append(all, errorKind{Code: strings.ToUpper(i.Name), Meaning: i.Meaning, Hint: i.Hint, Name: i.Name, Number: int(i.Kind),
			Legacy: i.Legacy, Modern: i.Modern, HTTP: i.HTTP, ModernHTTP: i.ModernOwn, Retryable: i.Retryable, Model: i.Model})
	}
	for _, c := range incident.Codes() {
		all = append(all, errorKind{Code: c.Code, Meaning: c.Meaning, Hint: c.Hint})
	}
	reply(w, http.StatusOK, map[string]any{"kinds": all})
	return nil
}

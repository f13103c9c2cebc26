package chatws

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
)

// uploadTime is how long a file may take to arrive.
const uploadTime = 2 * time.Minute

// Files serves /api/files: what messages to agents may name by fileId. An error
// that a method returns is for the client, to whom nothing has been written.
type Files struct{ files *chat.Files }

// NewFiles serves files.
func NewFiles(files *chat.Files) *Files { return &Files{files} }

// Post takes a file: the body as it is, named by the query or a
// Content-Disposition header, or the first file of a form.
func (s *Files) Post(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	// Some writers have no deadlines; what is before them has bounds of its own.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime))
	name, kind, body, err := upload(r)
	if err != nil {
		return err
	}
	f, err := s.files.Put(r.Context(), who, name, kind, body)
	if err != nil {
		if _, known := errors.AsType[*fault.Error](err); !known && r.Context().Err() == nil && brokenOff(err) {
			return fault.New(fault.InvalidRequest, name, "the file has not come whole").Because(err)
		}
		return err
	}
	w.Header().Set("Location", "/api/files/"+f.ID)
	return sayJSON(w, http.StatusCreated, f)
}

// brokenOff reports whether an upload ended before its end.
func brokenOff(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// upload finds the file in a request.
func upload(r *http.Request) (name, kind string, body io.Reader, err error) {
	name, kind = r.URL.Query().Get("name"), r.Header.Get("Content-Type")
	t, params, err := mime.ParseMediaType(kind)
	if err != nil || t != "multipart/form-data" {
		if name == "" {
			name = disposed(r.Header.Get("Content-Disposition"))
		}
		return name, kind, r.Body, nil
	}
	if params["boundary"] == "" {
		return "", "", nil, fault.New(fault.InvalidRequest, "Content-Type", "a form needs a boundary")
	}
	form := multipart.NewReader(r.Body, params["boundary"])
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF: // wrapped, it means that the form broke off
			return "", "", nil, &fault.Error{Kind: fault.InvalidParams, Subject: "file", Msg: "the form holds no file", Hint: `Send one, as curl does by -F "file=@notes.txt".`}
		case err != nil:
			return "", "", nil, fault.New(fault.InvalidRequest, "", "the form cannot be read: %v", err)
		case part.FileName() == "" && part.FormName() != "file":
			continue // other fields of the form
		}
		if name == "" {
			name = part.FileName()
		}
		return name, part.Header.Get("Content-Type"), part, nil
	}
}

// disposed is the name that a Content-Disposition header says, if it does.
func disposed(header string) string {
	_, params, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return params["filename"]
}

// List says which files the principal has.
func (s *Files) List(w http.ResponseWriter, _ *http.Request, who *auth.Principal) error {
	return sayJSON(w, http.StatusOK, map[string]any{"files": s.files.List(who)})
}

// Get returns the content of a file. Browsers save it and run nothing of it:
// whoever uploaded it may have had it from somebody else.
func (s *Files) Get(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	f, data, err := s.files.Read(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", f.Type)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": f.Name}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Expires", f.Expires.Format(http.TimeFormat))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // a client that has gone misses nothing
	}
	return nil
}

// Delete forgets a file.
func (s *Files) Delete(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	id := r.PathValue("id")
	if err := s.files.Delete(r.Context(), who, id); err != nil {
		return err
	}
	return sayJSON(w, http.StatusOK, map[string]string{"deleted": id})
}

// sayJSON answers with what is somebody's, so that nobody is to keep it.
func sayJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone misses nothing
	return nil
}

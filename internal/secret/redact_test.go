package secret

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		`dial https://ann:p4ss@host.example:99/x?y: refused`:                            `dial https://•••@host.example:99/x?y: refused`,
		`nats://s3cr3t@127.0.0.1:4222 is away`:                                          `nats://•••@127.0.0.1:4222 is away`,
		`postgres://u:p@ss@db/x`:                                                        `postgres://•••@db/x`,
		`401: Authorization: Bearer abc.def-123 is expired`:                             `401: Authorization: Bearer ••• is expired`,
		`sent {"authorization":"Basic dXNlcjpwYXNz"}`:                                   `sent {"authorization":"Basic •••"}`,
		`headers map[Authorization:[Bearer supersecretvalue]]`:                          `headers map[Authorization:[Bearer •••]]`,
		`GET /v1?api_key=abc123&x=1 failed`:                                             `GET /v1?api_key=•••&x=1 failed`,
		`wss://agents.example/ws?token=t0p&room=4: bad handshake`:                       `wss://agents.example/ws?token=•••&room=4: bad handshake`,
		`{\"api_key\":\"abc123\",\"n\":1}`:                                              `{\"api_key\":\"•••\",\"n\":1}`,
		`{"token": "abc123", "n": 1}`:                                                   `{"token": "•••", "n": 1}`,
		`x-api-key: abc123 was refused`:                                                 `x-api-key: ••• was refused`,
		`OPENAI_API_KEY=abc123 is wrong`:                                                `OPENAI_API_KEY=••• is wrong`,
		`password: hunter2`:                                                             `password: •••`,
		`client_secret='hunter2'`:                                                       `client_secret='•••'`,
		`access_token=abc123;refresh_token=def456`:                                      `access_token=•••;refresh_token=•••`,
		`Cookie: sid=abc123; theme=dark`:                                                `Cookie: •••`,
		`Incorrect API key provided: sk-proj-abcdefghijkl1234.`:                         `Incorrect API key provided: •••.`,
		`bad credentials ghp_abcdefghijklmnop1234 for x`:                                `bad credentials ••• for x`,
		`jwt eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl expired`:                                `jwt ••• expired`,
		`AccountKey=abc123==;EndpointSuffix=core`:                                       `AccountKey=•••;EndpointSuffix=core`,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- was read": `••• was read`,
		`{"password": "my pass word", "n": 1}`:                                          `{"password": "•••", "n": 1}`,
		`{"password": "a \"quoted\" word"}`:                                             `{"password": "•••"}`,
		`db_password='my pass word' is wrong`:                                           `db_password='•••' is wrong`,
		`{\"client_secret\": \"my pass word\"}`:                                         `{\"client_secret\": \"•••\"}`,
		`passphrase: open sesame`:                                                       `passphrase: •••`,
		`passphrase: open sesame, user: ann`:                                            `passphrase: •••, user: ann`,
		`npm_abcdefghijklmnop1234 is revoked`:                                           `••• is revoked`,
		`hf_abcdefghijklmnopqrst is wrong`:                                              `••• is wrong`,
		`SG.abcdefghijklmnop.qrstuvwxyz0123456789 is wrong`:                             `••• is wrong`,
		`the token abcdef0123456789 is wrong`:                                           `the token ••• is wrong`,
		`invalid token "abcdefghijklmnopqrstuvwx"`:                                      `invalid token "•••"`,
		// What is none stays as it is.
		`the token authentication of this server`:                   ``,
		`a token that is misunderstood`:                             ``,
		`the access token internationalization`:                     ``,
		`Bearer authentication is required`:                         ``,
		`the server refuses the bearer token.`:                      ``,
		`dial tcp 127.0.0.1:80: connect: connection refused`:        ``,
		`invalid character '}' looking for beginning of object key`: ``,
		`Unexpected token: } in JSON at position 4`:                 ``,
		`max_tokens=4096 is more than the model takes`:              ``,
		`https://example.com/a@b?c=d and mail to ann@example.com`:   ``,
		`unknown key "token" in the config`:                         ``,
		`basic functions do not need a key`:                         ``,
		`Give the bridge the server's token in AILUMINA_WS_TOKEN.`:  ``,
		`no answer within 30s`:                                      ``,
	} {
		if want == "" {
			want = text
		}
		got := Redact(text)
		if got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
		}
		if again := Redact(got); again != got {
			t.Errorf("%q becomes %q when it is done twice", got, again)
		}
	}
}

func TestHider(t *testing.T) {
	var h Hider
	if got := h.Hide("plain sesame-open token=abc"); got != "plain sesame-open token="+Dots {
		t.Error(got)
	}
	h.Set([]string{"Bearer sesame-open", "short", "sesame-open-wide"})
	if got := h.Known("sesame-open, sesame-open-wide, short, token=abc"); got != Dots+", "+Dots+", short, token=abc" {
		t.Error(got)
	}
	h.Set(nil)
	if got := h.Known("sesame-open"); got != "sesame-open" {
		t.Error(got)
	}
}

// Text without a hint is passed over; a credential has one in any case, and in
// the letters that go for k and s.
func TestHints(t *testing.T) {
	for _, text := range []string{"TOKEN=abcdef", "API_KEY: abcdef", "HTTPS://u:pw@h", "to\u212aen=abcdef", "pa\u017f\u017fword=abcdef", "GHP_", "x-Sig=abcdef", "AbEARER x"} {
		if !hinted(text) {
			t.Errorf("%q is passed over", text)
		}
	}
	for _, text := range []string{"", "plain", "to ken", "http:/", "ske", "xo", "gh_"} {
		if hinted(text) {
			t.Errorf("%q has a hint", text)
		}
	}
	// What Redact knows is found where nothing else is a hint.
	for _, text := range []string{"jwt=abcdef", "?code=abcdef", `"jwt": "abcdef"`, "pk_live_0123456789abc", "rk-0123456789abcdef", "github_pat_0123456789abcdefg"} {
		if Redact(text) == text {
			t.Errorf("%q is shown", text)
		}
	}
	if got := Redact("to\u212aen=abcdef"); got != "to\u212aen="+Dots {
		t.Error(got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("https://a:b@c token=x Bearer y")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Redact(text); len(got) > 4*len(text)+64 || strings.Contains(text, "://u:pw@h") && strings.Contains(got, "u:pw@") {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}

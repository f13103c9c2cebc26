package secret

import "testing"

func TestMaskJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"/a", "n":12345678901234567890}`:         `{"n":12345678901234567890,"path":"/a"}`,
		`{"apiKey":"k","auth":{"user":"u"},"token":1}`:    `{"apiKey":"•••","auth":"•••","token":"•••"}`,
		`{"passwords":["a","b"],"keyed":true,"key":null}`: `{"key":null,"keyed":true,"passwords":"•••"}`,
		`{"in":[{"client_secret":"s"}]}`:                  `{"in":[{"client_secret":"•••"}]}`,
		`{"url":"https://ann:pw@host/x?a=b"}`:             `{"url":"https://•••@host/x?a=b"}`,
		`{"header":"Bearer abc.def <x>"}`:                 `{"header":"Bearer ••• <x>"}`,
		`{"broken":`:                                      `"•••"`,
	} {
		if got := string(MaskJSON([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

package images

import (
	"io"
	"net/http"
	"testing"
)

func TestRegistry(t *testing.T) {
	image := func() *Image {
		i, err := New("small", "1", Config{Cmd: []string{"/x"}}, []File{{Name: "x", Mode: 0o755, Data: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	i := image()
	if again := image(); again.Digest() != i.Digest() {
		t.Errorf("the same files gave %s and %s", i.Digest(), again.Digest())
	}
	r, err := Serve(i)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ask := func(method, path string, want int) string {
		t.Helper()
		q, err := http.NewRequest(method, "http://"+r.Address()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("%s %s: %s, want %d", method, path, answer.Status, want)
		}
		return string(body)
	}
	ask("GET", "/v2/", 200)
	ask("HEAD", "/v2/small/manifests/1", 200)
	if got := ask("GET", "/v2/small/manifests/"+i.Digest(), 200); got != string(i.Manifest) {
		t.Errorf("manifest: %s", got)
	}
	for d, data := range i.Blobs {
		if got := ask("GET", "/v2/small/blobs/"+d, 200); got != string(data) {
			t.Errorf("blob %s differs", d)
		}
	}
	ask("GET", "/v2/small/manifests/2", 404)
	ask("GET", "/v2/other/manifests/1", 404)
	ask("PUT", "/v2/small/manifests/1", 405)
	if got := r.Pulls("small:1"); got != 1 {
		t.Errorf("%d pulls counted, want 1", got)
	}
}

package images

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
)

// Registry is a read-only OCI registry on the loopback interface that counts
// what is asked of it.
type Registry struct {
	listener net.Listener
	server   *http.Server

	mu     sync.Mutex
	images map[string]*Image
	pulls  map[string]int
}

// Serve starts a registry on a free port.
func Serve(images ...*Image) (*Registry, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r := &Registry{listener: l, images: map[string]*Image{}, pulls: map[string]int{}}
	for _, i := range images {
		r.images[i.Name+":"+i.Tag] = i
	}
	r.server = &http.Server{Handler: r}
	go r.server.Serve(l)
	return r, nil
}

// Address returns host:port.
func (r *Registry) Address() string { return r.listener.Addr().String() }

// Pulls returns how often an image, "app:1", was pulled: how often its tag was
// asked for. A client asks once per pull, and then by digest for what it lacks.
func (r *Registry) Pulls(image string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls[image]
}

// Close stops the registry.
func (r *Registry) Close() error { return r.server.Close() }

// ServeHTTP answers GET and HEAD of the OCI distribution API's pull part.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		http.Error(w, "read-only", http.StatusMethodNotAllowed)
		return
	}
	rest, ok := strings.CutPrefix(q.URL.Path, "/v2/")
	if !ok {
		http.NotFound(w, q)
		return
	}
	if rest == "" {
		return
	}
	if name, reference, ok := strings.Cut(rest, "/manifests/"); ok {
		if i := r.manifest(name, reference); i != nil {
			send(w, q, manifestType, i.Digest(), i.Manifest)
			return
		}
	} else if name, d, ok := strings.Cut(rest, "/blobs/"); ok {
		for _, i := range r.images {
			if data, ok := i.Blobs[d]; ok && i.Name == name {
				send(w, q, "application/octet-stream", d, data)
				return
			}
		}
	}
	http.NotFound(w, q)
}

// manifest finds an image by tag or digest, and counts the tags.
func (r *Registry) manifest(name, reference string) *Image {
	if i, ok := r.images[name+":"+reference]; ok {
		r.mu.Lock()
		r.pulls[name+":"+reference]++
		r.mu.Unlock()
		return i
	}
	for _, i := range r.images {
		if i.Name == name && i.Digest() == reference {
			return i
		}
	}
	return nil
}

func send(w http.ResponseWriter, q *http.Request, mediaType, digest string, data []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", fmt.Sprint(len(data)))
	w.Header().Set("Docker-Content-Digest", digest)
	if q.Method == http.MethodGet {
		w.Write(data)
	}
}

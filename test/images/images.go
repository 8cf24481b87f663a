// Package images makes the small container images that the engine tests run,
// and serves them from a registry. It needs no container tool: an image is a
// few blobs in memory.
package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
)

// Media types of the OCI image specification.
const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// Image is an OCI image with one layer.
type Image struct {
	// Name and Tag are its name in the registry.
	Name, Tag string
	// Manifest is the manifest's document, and Blobs are its configuration and
	// its layer by digest.
	Manifest []byte
	Blobs    map[string][]byte
}

// Digest returns the manifest's digest.
func (i *Image) Digest() string { return digest(i.Manifest) }

// Config is the part of an image's configuration that says how to run it.
type Config struct {
	User       string   `json:",omitempty"`
	Env        []string `json:",omitempty"`
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

// File is a file, a directory (its name ends with "/") or a symbolic link of an
// image.
type File struct {
	Name string
	Mode int64
	Data []byte
	Link string
}

// New makes an image of files. The same files give the same digests.
func New(name, tag string, c Config, files []File) (*Image, error) {
	layer, err := tarball(files)
	if err != nil {
		return nil, fmt.Errorf("image %s:%s: %w", name, tag, err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(layer); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      "2024-01-01T00:00:00Z",
		"config":       c,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        descriptor(configType, config),
		"layers":        []any{descriptor(layerType, zipped.Bytes())},
	})
	if err != nil {
		return nil, err
	}
	return &Image{Name: name, Tag: tag, Manifest: manifest, Blobs: map[string][]byte{
		digest(config):         config,
		digest(zipped.Bytes()): zipped.Bytes(),
	}}, nil
}

func descriptor(mediaType string, data []byte) map[string]any {
	return map[string]any{"mediaType": mediaType, "digest": digest(data), "size": len(data)}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func tarball(files []File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Typeflag: tar.TypeReg, Size: int64(len(f.Data)), Format: tar.FormatUSTAR}
		switch {
		case f.Link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.Link
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Pause makes the sandbox's image, "pause:3.10", from ./pause. It needs the go
// command.
func Pause() (*Image, error) {
	dir, err := os.MkdirTemp("", "pause-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "pause")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "github.com/nodeadmit/nodeadmit/test/images/pause")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build pause: %w\n%s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	return New("pause", "3.10", Config{
		User: "65535:65535", Env: []string{searchPath}, Entrypoint: []string{"/pause"}, WorkingDir: "/",
	}, []File{{Name: "pause", Mode: 0o755, Data: data}})
}

// App makes "app:1": a static busybox with its commands, running until it is
// stopped.
func App() (*Image, error) {
	busybox, commands, err := busyboxCommands()
	if err != nil {
		return nil, err
	}
	files := []File{
		{Name: "bin/", Mode: 0o755}, {Name: "dev/", Mode: 0o755}, {Name: "etc/", Mode: 0o755},
		{Name: "home/", Mode: 0o755}, {Name: "home/app/", Mode: 0o755}, {Name: "proc/", Mode: 0o755},
		{Name: "root/", Mode: 0o700}, {Name: "sys/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777},
		{Name: "var/", Mode: 0o755}, {Name: "var/run/", Mode: 0o755},
		{Name: "etc/passwd", Mode: 0o644, Data: []byte("root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n")},
		{Name: "etc/group", Mode: 0o644, Data: []byte("root:x:0:\napp:x:1000:\n")},
		{Name: "bin/busybox", Mode: 0o755, Data: busybox},
	}
	for _, c := range commands {
		files = append(files, File{Name: path.Join("bin", c), Mode: 0o777, Link: "busybox"})
	}
	return New("app", "1", Config{
		Env: []string{searchPath}, WorkingDir: "/",
		Cmd: []string{"/bin/sh", "-c", "trap exit TERM; while :; do sleep 1 & wait $!; done"},
	}, files)
}

// busyboxCommands returns busybox and the names that it answers to.
func busyboxCommands() ([]byte, []string, error) {
	for _, p := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		data, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		if !static(data) {
			return nil, nil, fmt.Errorf("%s is not static: install busybox-static", p)
		}
		out, err := exec.Command(p, "--list").Output()
		if err != nil {
			return nil, nil, fmt.Errorf("%s --list: %w", p, err)
		}
		var names []string
		for _, name := range strings.Fields(string(out)) {
			if name != "busybox" {
				names = append(names, name)
			}
		}
		sort.Strings(names)
		return data, names, nil
	}
	return nil, nil, fmt.Errorf("no busybox: install busybox-static")
}

// static says whether a program needs no dynamic linker.
func static(program []byte) bool {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return false
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

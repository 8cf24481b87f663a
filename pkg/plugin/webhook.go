package plugin

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
)

// webhook asks an admission webhook as an API server does.
type webhook struct {
	*Config
	client *http.Client
}

func newWebhook(c *Config) (*webhook, error) {
	transport := &http.Transport{MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true} // no proxy: nothing is read from the environment
	if c.Socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, c.Socket) }
	} else {
		config, err := tlsConfig(c)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	return &webhook{c, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return errors.New("it redirects")
	}}}, nil
}

// tlsConfig trusts the plugin's own authority alone.
func tlsConfig(c *Config) (*tls.Config, error) {
	pem := []byte(c.CABundle)
	if c.CAFile != "" {
		data, _, err := rootfile.Read(c.CAFile, 1<<20, rootfile.Check)
		if err != nil {
			return nil, err
		}
		pem = append(pem, data...)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: c.ServerName}
	if !out.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("caBundle or caFile has no certificate in PEM")
	}
	if c.CertFile != "" {
		cert, _, err := rootfile.Read(c.CertFile, 1<<20, rootfile.Check)
		if err != nil {
			return nil, err
		}
		key, _, err := rootfile.Read(c.KeyFile, 1<<20, checkKey)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// checkKey refuses a key that others may read.
func checkKey(name string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: mode %04o lets others read (chmod 0600 %s)", name, info.Mode().Perm(), name)
	}
	return rootfile.Check(name, info)
}

// dialSocket connects to a plugin's socket, which must be root's, as must be who
// listens.
func dialSocket(ctx context.Context, name string) (net.Conn, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s: is no socket", name)
	}
	if err := rootfile.Check(name, info); err != nil {
		return nil, err
	}
	if err := rootfile.CheckDir(filepath.Dir(name)); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err == nil {
		var peer *unix.Ucred
		cerr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		switch {
		case cerr != nil:
			err = cerr
		case err == nil && peer.Uid != 0:
			err = fmt.Errorf("%s: uid %d listens there: want root", name, peer.Uid)
		}
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (w *webhook) close() { w.client.CloseIdleConnections() }

func (w *webhook) review(ctx context.Context, r *Request) (*Response, error) {
	r = r.withUID()
	if r.Review == nil {
		return nil, errors.New("a webhook reviews pods, and this container is of none: leave unmanaged out of its moments")
	}
	data, err := json.Marshal(r.Review)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxOutput:
		return nil, fmt.Errorf("said more than %d bytes", maxOutput)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("answers with HTTP status %d", resp.StatusCode)
	}
	if t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || t != "application/json" && t != "text/plain" {
		return nil, fmt.Errorf("answers with content type %s: want application/json", text(resp.Header.Get("Content-Type")))
	}
	return readReview(body)
}

func readReview(body []byte) (*Response, error) {
	var review admissionv1.AdmissionReview
	var raw struct {
		Response *struct {
			Allowed *bool `json:"allowed"`
		} `json:"response"`
	}
	if err := errors.Join(json.Unmarshal(body, &review), json.Unmarshal(body, &raw)); err != nil {
		return nil, fmt.Errorf("its answer is no JSON: %w", err)
	}
	a := review.Response
	switch {
	case review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview":
		return nil, fmt.Errorf("its answer is %s %s: want admission.k8s.io/v1 AdmissionReview", text(review.APIVersion), text(review.Kind))
	case a == nil || raw.Response == nil:
		return nil, errors.New("its answer has no response")
	case len(a.Patch) > 0 || a.PatchType != nil:
		return nil, errors.New("it wants to change the pod, and nodeadmit changes nothing")
	}
	out := &Response{UID: string(a.UID), Allowed: raw.Response.Allowed, Warnings: a.Warnings, AuditAnnotations: a.AuditAnnotations}
	if a.Result != nil {
		out.Message = a.Result.Message
		if out.Message == "" {
			out.Message = string(a.Result.Reason)
		}
	}
	return out, nil
}

// check connects.
func (w *webhook) check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, w.URL, nil)
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

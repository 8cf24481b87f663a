// Command testplugin is a plugin that does what its arguments say: well or badly, in
// each of the ways a plugin can be asked.
//
//	testplugin exec BEHAVIOUR
//	testplugin webhook SOCKET BEHAVIOUR
//	testplugin grpc SOCKET BEHAVIOUR
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	pluginv1 "github.com/nodeadmit/nodeadmit/proto/nodeadmit/plugin/v1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "exec":
		return runExec(args[1])
	case len(args) == 3 && args[0] == "webhook":
		return runWebhook(args[1], args[2])
	case len(args) == 3 && args[0] == "grpc":
		return runGRPC(args[1], args[2])
	}
	return errors.New("usage: testplugin exec BEHAVIOUR | webhook SOCKET BEHAVIOUR | grpc SOCKET BEHAVIOUR")
}

// pod is what is read of a pod. Host network is refused by behaviour "net".
type pod struct {
	Metadata struct{ Name string }
	Spec     struct {
		HostNetwork bool
		Containers  []struct{ Name, Image string }
	}
}

// decide is what a good plugin does.
func decide(behaviour string, p pod, unknown []string) (allowed bool, message string) {
	switch behaviour {
	case "deny":
		return false, "never"
	case "net":
		return !p.Spec.HostNetwork, "the pod uses the node's network"
	case "bad":
		return !slices.ContainsFunc(p.Spec.Containers, func(c struct{ Name, Image string }) bool { return c.Name == "bad" }), "a container is called bad\nand so on"
	case "unknown":
		return !slices.Contains(unknown, "metadata.labels"), "labels are unknown"
	}
	return true, ""
}

const apiVersion = "plugin.nodeadmit.dev/v1"

func runExec(behaviour string) error {
	out := json.NewEncoder(os.Stdout)
	command := os.Getenv("NODEADMIT_COMMAND")
	switch command {
	case "VERSION":
		versions := []string{apiVersion}
		if behaviour == "old" {
			versions = []string{"plugin.nodeadmit.dev/v0"}
		}
		return out.Encode(map[string]any{"apiVersion": apiVersion, "supportedVersions": versions})
	case "CHECK":
		if behaviour == "unhappy" {
			_ = out.Encode(map[string]any{"apiVersion": apiVersion, "code": 7, "msg": "no configuration", "details": "/etc/x"})
			os.Exit(1)
		}
		return nil
	}
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var q struct {
		APIVersion, Kind, UID, Moment string
		Unknown                       []string
		Review                        struct{ Request struct{ Object pod } }
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return err
	}
	answer := map[string]any{"apiVersion": apiVersion, "kind": "ReviewResponse", "uid": q.UID}
	answer["allowed"], answer["message"] = decide(behaviour, q.Review.Request.Object, q.Unknown)
	switch behaviour {
	case "env":
		cwd, _ := os.Getwd()
		env := os.Environ()
		answer["allowed"] = cwd == "/" && len(env) == 2 && strings.HasPrefix(env[0], "PATH=/usr/sbin:") && env[1] == "NODEADMIT_COMMAND=REVIEW"
		answer["message"] = fmt.Sprint(cwd, env)
	case "hang":
		time.Sleep(time.Hour)
	case "child": // answers, and leaves a child that holds its output
		c := exec.Command("/bin/sleep", "3600")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return err
		}
	case "hangchild": // waits for its child
		c := exec.Command("/bin/sleep", "3601")
		c.Stdout = os.Stdout
		return c.Run()
	case "crash":
		fmt.Fprintln(os.Stderr, "Segmentation fault")
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "half":
		fmt.Print(`{"apiVersion": "plugin.nodeadmit.dev/v1", "uid": "`, q.UID, `", "allowed": tr`)
		return nil
	case "exit":
		_ = out.Encode(answer) // an answer, and yet a failure
		os.Exit(3)
	case "error":
		_ = out.Encode(map[string]any{"apiVersion": apiVersion, "code": 101, "msg": "the list is\nempty", "details": "d"})
		os.Exit(1)
	case "nothing":
		return nil
	case "silent":
		delete(answer, "allowed")
	case "null":
		answer["allowed"] = nil
	case "string":
		answer["allowed"] = "yes"
	case "other":
		answer["uid"] = "another"
	case "old":
		answer["apiVersion"] = "plugin.nodeadmit.dev/v0"
	case "flood":
		line := bytes.Repeat([]byte("x"), 1<<16)
		for {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
	case "warn":
		answer["warnings"], answer["auditAnnotations"] = []string{"beware\nof the dog"}, map[string]string{"k": "v"}
	case "slow":
		time.Sleep(150 * time.Millisecond)
	}
	return out.Encode(answer)
}

func listen(socket string) (net.Listener, error) {
	_ = os.Remove(socket)
	syscall.Umask(0o077)
	return net.Listen("unix", socket)
}

func runWebhook(socket, behaviour string) error {
	l, err := listen(socket)
	if err != nil {
		return err
	}
	return http.Serve(l, Handler(behaviour))
}

// Handler is the webhook.
func Handler(behaviour string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			APIVersion, Kind string
			Request          struct {
				UID      string
				Object   pod
				UserInfo struct{ Extra map[string][]string }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "AdmissionReview" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		allowed, message := decide(behaviour, review.Request.Object, review.Request.UserInfo.Extra["nodeadmit.dev/unknown"])
		response := map[string]any{"uid": review.Request.UID, "allowed": allowed, "status": map[string]any{"message": message}}
		answer := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
		switch behaviour {
		case "hang":
			<-r.Context().Done()
			return
		case "patch":
			response["patch"], response["patchType"] = []byte(`[{"op":"add","path":"/x","value":1}]`), "JSONPatch"
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		case "other":
			response["uid"] = "another"
		case "silent":
			delete(response, "allowed")
		case "empty":
			delete(answer, "response")
		case "old":
			answer["apiVersion"] = "admission.k8s.io/v1beta1"
		case "half":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "500")
			fmt.Fprint(w, `{"apiVersion": "admission.k8s.io/v1"`)
			return
		case "flood":
			w.Header().Set("Content-Type", "application/json")
			for line := bytes.Repeat([]byte("x"), 1<<16); ; {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		case "html":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>welcome")
			return
		case "warn":
			response["warnings"], response["auditAnnotations"] = []string{"beware\nof the dog"}, map[string]string{"k": "v"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

func runGRPC(socket, behaviour string) error {
	l, err := listen(socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	pluginv1.RegisterPluginServiceServer(s, &server{behaviour: behaviour})
	h := health.NewServer()
	if behaviour == "unhappy" {
		h.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	}
	healthpb.RegisterHealthServer(s, h)
	return s.Serve(l)
}

type server struct {
	pluginv1.UnimplementedPluginServiceServer
	behaviour string
}

func (s *server) Review(ctx context.Context, q *pluginv1.ReviewRequest) (*pluginv1.ReviewResponse, error) {
	var review struct{ Request struct{ Object pod } }
	if err := json.Unmarshal(q.AdmissionReview, &review); err != nil {
		return nil, err
	}
	answer := &pluginv1.ReviewResponse{Uid: q.Uid, Verdict: pluginv1.Verdict_VERDICT_ALLOW}
	allowed, message := decide(s.behaviour, review.Request.Object, q.Unknown)
	if !allowed {
		answer.Verdict, answer.Message = pluginv1.Verdict_VERDICT_DENY, message
	}
	switch s.behaviour {
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "crash":
		os.Exit(1)
	case "error":
		return nil, errors.New("the list is\nempty")
	case "other":
		answer.Uid = "another"
	case "silent":
		answer.Verdict = pluginv1.Verdict_VERDICT_UNSPECIFIED
	case "flood":
		answer.Message = strings.Repeat("x", 2<<20)
	case "warn":
		answer.Warnings, answer.AuditAnnotations = []string{"beware\nof the dog"}, map[string]string{"k": "v"}
	}
	return answer, nil
}

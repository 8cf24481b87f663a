package pod

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	kyaml "sigs.k8s.io/yaml"
)

// Named is a pod of a manifest.
type Named struct {
	// Where tells which one it is: "Pod team-a/web", "Deployment team-a/web".
	Where string
	Pod   *corev1.Pod
}

// Read reads the pods of a manifest: YAML or JSON, several documents, lists,
// and pod templates of workloads. Unknown and repeated fields are errors, as the
// API server has them with strict field validation. Objects of other kinds are
// an error too: they would not be judged. All pods get the API's defaults.
func Read(data []byte) ([]Named, error) {
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var out []Named
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if blank(doc) {
			continue
		}
		pods, err := readObject(doc)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		out = append(out, pods...)
	}
	if len(out) == 0 {
		return nil, errors.New("holds no pod")
	}
	return out, nil
}

// blank reports whether a document has nothing but comments.
func blank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
}

// head is what all objects have. A pod's own fields are read a second time.
type head struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// templates are where workloads have their pods.
var templates = map[string][]string{
	"Deployment":            {"spec", "template"},
	"DaemonSet":             {"spec", "template"},
	"StatefulSet":           {"spec", "template"},
	"ReplicaSet":            {"spec", "template"},
	"ReplicationController": {"spec", "template"},
	"Job":                   {"spec", "template"},
	"CronJob":               {"spec", "jobTemplate", "spec", "template"},
	"PodTemplate":           {"template"},
}

func readObject(doc []byte) ([]Named, error) {
	// The strict conversion refuses repeated keys at every depth.
	data, err := kyaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err
	}
	var h head
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &h); err != nil {
		return nil, err
	}
	switch {
	case h.Kind == "List", h.Kind == "PodList":
		var out []Named
		for i, item := range h.Items {
			pods, err := readObject(item)
			if err != nil {
				return nil, fmt.Errorf("items[%d]: %w", i, err)
			}
			out = append(out, pods...)
		}
		return out, nil
	case h.Kind == "Pod":
	case templates[h.Kind] != nil:
		if data, err = member(data, templates[h.Kind]); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Kind, err)
		}
	case h.Kind == "":
		return nil, errors.New("kind is missing")
	default:
		return nil, fmt.Errorf("kind %q has no pod", h.Kind)
	}
	p := &corev1.Pod{}
	faults, err := kjson.UnmarshalStrict(data, p)
	if err := errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("%s: %w", h.Kind, err)
	}
	if len(p.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%s: the pod has no containers", h.Kind)
	}
	p.APIVersion, p.Kind = "v1", "Pod"
	if h.Kind != "Pod" {
		// A controller's pods have its namespace, and names that begin with its own.
		p.Namespace, p.Name = h.Metadata.Namespace, h.Metadata.Name
	}
	if p.Name == "" {
		p.Name = p.GenerateName
	}
	Default(p)
	return []Named{{fmt.Sprintf("%s %s/%s", h.Kind, p.Namespace, p.Name), p}}, nil
}

func member(data []byte, path []string) ([]byte, error) {
	for i, name := range path {
		var fields map[string]json.RawMessage
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
			return nil, err
		}
		if data = fields[name]; data == nil {
			return nil, fmt.Errorf("%s is missing", strings.Join(path[:i+1], "."))
		}
	}
	return data, nil
}

// Default sets what the API server sets and a check reads
// (kubernetes pkg/apis/core/v1/defaults.go: SetDefaults_Volume,
// SetDefaults_HostNetworkPorts; the namespace is the client's).
func Default(p *corev1.Pod) {
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	s := &p.Spec
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range s.Volumes {
		if VolumeType(&s.Volumes[i]) == "" {
			s.Volumes[i].EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	if !s.HostNetwork {
		return
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			for j := range list[i].Ports {
				if port := &list[i].Ports[j]; port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
}

// VolumeType is the name of a volume's source, or "".
func VolumeType(v *corev1.Volume) string {
	sources := reflect.ValueOf(&v.VolumeSource).Elem()
	for i := range sources.NumField() {
		if !sources.Field(i).IsNil() {
			return jsonName(sources.Type().Field(i))
		}
	}
	return ""
}

package policy

import (
	"fmt"
	"reflect"
	"strings"
)

// Setting is one setting of a control that is in force, for people.
type Setting struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	// From is where the value comes from: "policies.d/a.yaml:8", "preset
	// baseline v1.37", or "default".
	From string `json:"from"`
}

// ActiveControl is one control that is in force, with all of its settings.
type ActiveControl struct {
	Name           string    `json:"name"`
	Mode           Mode      `json:"mode"`
	OnUndetermined string    `json:"onUndetermined"`
	From           string    `json:"from"`
	Settings       []Setting `json:"settings,omitempty"`
}

// Active lists the controls that the policy has in force, in the order in which
// violations are reported.
func (p *Policy) Active() []ActiveControl {
	preset := fmt.Sprintf("preset %s %s", p.Preset, p.Version)
	var out []ActiveControl
	for i := range p.active {
		a := &p.active[i]
		c := ActiveControl{Name: a.control.Name, Mode: a.mode, OnUndetermined: "Deny", From: preset}
		if a.undeterminedAllowed {
			c.OnUndetermined = "Allow"
		}
		base := preset
		if a.control.preset(p.Preset, p.Version) == nil {
			base = "default"
		}
		if a.lines != nil {
			c.From = p.File
		}
		for _, s := range settings(a.rule) {
			s.From = base
			if line, ok := a.lines[s.Name]; ok {
				s.From = fmt.Sprintf("%s:%d", p.File, line)
			}
			c.Settings = append(c.Settings, s)
		}
		out = append(out, c)
	}
	return out
}

// settings reads a rule's fields. They have the names that policies use, but
// for those in yamlNames.
func settings(r rule) []Setting {
	v := reflect.ValueOf(r)
	if v.Kind() != reflect.Struct {
		return nil
	}
	var out []Setting
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if n, ok := yamlNames[v.Type().Name()+"."+name]; ok {
			name = n
		}
		if name == "" || v.Field(i).Kind() == reflect.Func {
			continue
		}
		out = append(out, Setting{Name: name, Value: plain(v.Field(i))})
	}
	return out
}

// yamlNames are settings that a rule keeps under another name, or "" for what
// is no setting.
var yamlNames = map[string]string{
	"hostNamespace.word":             "",
	"writable.sys":                   "",
	"capabilities.keep":              "",
	"sysctls.hostWide":               "allowHostWide",
	"appArmorProfile.denyWithout":    "denyOnHostWithout",
	"procMount.allow":                "allowUnmasked",
	"procMount.allowInUserNamespace": "allowUnmaskedInUserNamespace",
	"runAsUser.limitsSupplemental":   "",
}

// plain makes a value of unexported types one that can be written as JSON.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int64:
		return v.Int()
	case reflect.String:
		return v.String()
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, plain(v.Index(i)))
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "prefix" {
				name = "pathPrefix"
			}
			out[name] = plain(v.Field(i))
		}
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	}
	return strings.TrimSpace(fmt.Sprint(v))
}

// Package doctor looks whether nodeadmit works on a node, and proves it: for
// every handler, a bundle that must be refused is, and one that may run is made
// and deleted by the real runtime.
package doctor

import (
	"fmt"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/install"
)

// Status is what a check found.
type Status string

// The findings, from good to bad.
const (
	OK Status = "ok"
	// Note is to be known, and nothing to be done about it at once.
	Note    Status = "note"
	Warning Status = "warning"
	Problem Status = "problem"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the check's name, for machines.
	Check string `json:"check"`
	// Subject is what was looked at: a file, a handler.
	Subject string `json:"subject"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// Report is all that was found.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Status     Status    `json:"status"`
	Findings   []Finding `json:"findings"`
}

// Options say where to look.
type Options struct {
	Install install.Options
	// NoProof leaves out what calls the runtimes.
	NoProof bool
}

// examination is one run.
type examination struct {
	o      Options
	record *install.Record
	plan   *install.Plan
	config *config.Config
	report Report
}

func (x *examination) add(check, subject string, s Status, format string, args ...any) {
	x.report.Findings = append(x.report.Findings, Finding{check, subject, s, fmt.Sprintf(format, args...)})
}

// note adds a problem if there is an error, and else that all is well.
func (x *examination) note(check, subject string, err error) {
	if err != nil {
		x.add(check, subject, Problem, "%v", err)
		return
	}
	x.add(check, subject, OK, "")
}

// Examine looks at everything. What can't be looked at is a problem.
func Examine(o Options) *Report {
	x := &examination{o: o}
	x.o.Install = o.Install.WithDefaults()
	x.report = Report{APIVersion: config.APIVersion, Kind: "DoctorReport", Status: OK}
	if x.installation() {
		x.files()
		x.hooks()
		x.configuration()
		x.policies()
		x.handlers()
		x.log()
		x.kubelet()
		x.breakGlass()
	}
	for _, f := range x.report.Findings {
		if f.Status == Problem || f.Status == Warning && x.report.Status == OK {
			x.report.Status = f.Status
		}
	}
	return &x.report
}

// installation reads what install did and looks what it would do now.
func (x *examination) installation() bool {
	var err error
	if x.record, err = install.ReadRecord(x.o.Install); err != nil {
		x.add("installation", x.o.Install.StateDir, Problem, "%v", err)
		return false
	}
	if x.record == nil {
		x.add("installation", x.o.Install.StateDir, Problem, "nothing is installed: nodeadmit install")
		return false
	}
	x.plan, err = install.NewPlan(x.record.Again(x.o.Install.StateDir))
	if err != nil {
		x.add("installation", x.record.Config, Problem, "%v", err)
	}
	return true
}

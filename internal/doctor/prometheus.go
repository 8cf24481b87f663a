package doctor

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Prometheus writes the report for a textfile collector.
func (r *Report) Prometheus(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# HELP nodeadmit_doctor_check What a check of nodeadmit doctor found: 0 is well, 1 a warning, 2 a problem.\n# TYPE nodeadmit_doctor_check gauge\n")
	seen := map[string]bool{}
	value := map[Status]int{OK: 0, Note: 0, Warning: 1, Problem: 2}
	worst := map[string]int{}
	for _, f := range r.Findings {
		labels := fmt.Sprintf("{check=%s,subject=%s}", label(f.Check), label(f.Subject))
		worst[labels] = max(worst[labels], value[f.Status])
	}
	for _, f := range r.Findings {
		labels := fmt.Sprintf("{check=%s,subject=%s}", label(f.Check), label(f.Subject))
		if !seen[labels] {
			seen[labels] = true
			fmt.Fprintf(&b, "nodeadmit_doctor_check%s %d\n", labels, worst[labels])
		}
	}
	fmt.Fprintf(&b, "# HELP nodeadmit_doctor_status The worst of all checks.\n# TYPE nodeadmit_doctor_status gauge\nnodeadmit_doctor_status %d\n", value[r.Status])
	fmt.Fprintf(&b, "# HELP nodeadmit_doctor_run_time_seconds When doctor ran.\n# TYPE nodeadmit_doctor_run_time_seconds gauge\nnodeadmit_doctor_run_time_seconds %d\n", time.Now().Unix())
	_, err := io.WriteString(w, b.String())
	return err
}

func label(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

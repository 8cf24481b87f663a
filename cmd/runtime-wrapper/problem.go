package main

import (
	"syscall"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
)

// problem is why a call can't be handed on.
type problem struct {
	what   string        // with the path it is about
	err    syscall.Errno // 0 if what says it all
	repair string
}

// line is the one line that reports it.
func (p *problem) line() string {
	s := "nodeadmit: " + p.what
	if p.err != 0 {
		s += ": " + p.err.Error()
	}
	return s + " (" + p.repair + ")"
}

// complain writes the problem to stderr and, for a command that may start a
// container, to the file that --log names: containerd shows only the latter.
func complain(argv []string, p *problem) {
	line := p.line()
	write(2, printable(line)+"\n")
	if !ociargs.MaybeJudged(argv[1:]) {
		return
	}
	path := ociargs.LogFile(argv[1:])
	if path == "" {
		return
	}
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		write(2, "nodeadmit: can't write the log "+printable(path)+": "+err.Error()+"\n")
		return
	}
	write(fd, logEntry(line, now()))
}

func write(fd int, s string) {
	for b := []byte(s); len(b) > 0; {
		n, err := syscall.Write(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		b = b[n:]
	}
}

func now() int64 {
	var tv syscall.Timeval
	if syscall.Gettimeofday(&tv) != nil {
		return 0
	}
	return int64(tv.Sec)
}

// logEntry is an entry as logrus writes it in JSON, which is what engines read
// (go-runc, containerd's getLastRuntimeError).
func logEntry(msg string, unix int64) string {
	return `{"level":"error","msg":` + quoteJSON(msg) + `,"time":"` + rfc3339(unix) + "\"}\n"
}

// quoteJSON quotes after RFC 8259; what is no UTF-8 becomes U+FFFD.
func quoteJSON(s string) string {
	b := []byte{'"'}
	for _, c := range s { // an invalid byte is U+FFFD here
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, string(c)...)
		}
	}
	return string(append(b, '"'))
}

const hex = "0123456789abcdef"

// printable keeps a line one line, whatever a path holds.
func printable(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == 0x7f {
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// rfc3339 is the time in UTC; the civil date after Hinnant,
// https://howardhinnant.github.io/date_algorithms.html#civil_from_days.
func rfc3339(unix int64) string {
	days, secs := unix/86400, unix%86400
	z := days + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day, month, year := doy-(153*mp+2)/5+1, mp+3, yoe+era*400
	if month > 12 {
		month, year = month-12, year+1
	}
	b := make([]byte, 0, 20)
	b = append(digits(b, year, 4), '-')
	b = append(digits(b, month, 2), '-')
	b = append(digits(b, day, 2), 'T')
	b = append(digits(b, secs/3600, 2), ':')
	b = append(digits(b, secs/60%60, 2), ':')
	return string(append(digits(b, secs%60, 2), 'Z'))
}

func digits(b []byte, n int64, width int) []byte {
	for i := width - 1; i >= 0; i-- {
		d := n
		for range i {
			d /= 10
		}
		b = append(b, byte('0'+d%10))
	}
	return b
}

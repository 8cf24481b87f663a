package spec

import "strconv"

// maxQuoted bounds pod-written text in messages, in bytes.
const maxQuoted = 120

// Quote returns s for a message of one line: as it is when it is a plain word
// or path, else quoted as Go quotes strings, and cut when it is long, so that
// text which a pod author wrote can't pass for the message around it.
func Quote(s string) string {
	plain := s != ""
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '/', c == '.', c == '-', c == '_', c == '~', c == ':', c == '@', c == '+', c == '=', c == '*':
		default:
			plain = false
		}
	}
	cut := ""
	if len(s) > maxQuoted {
		s, cut = s[:maxQuoted], "..."
	}
	if plain {
		return s + cut
	}
	return strconv.Quote(s) + cut
}

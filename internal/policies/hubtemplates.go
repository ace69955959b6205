package policies

import "strings"

// ReadsHub reports whether a text has a hub template that reads objects of the hub. The hub reads them only from the namespace of the policy.
func ReadsHub(text string) bool {
	for {
		begin := strings.Index(text, "{{hub")
		if begin < 0 {
			return false
		}
		text = text[begin+len("{{hub"):]
		template, rest, _ := strings.Cut(text, "hub}}")
		for _, function := range []string{"fromConfigMap", "fromSecret", "copyConfigMapData", "copySecretData", "lookup"} {
			if strings.Contains(template, function) {
				return true
			}
		}
		text = rest
	}
}

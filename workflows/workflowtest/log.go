package workflowtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Log records the log of workflows, one line for each message: the text, then key=value pairs in the order of the workflow.
type Log struct {
	mu      sync.Mutex
	entries []logEntry
}

// logEntry is one logged message with its keys and values.
type logEntry struct {
	message string
	keyvals []any
}

// Lines returns the messages so far with the named keys, without messages of the SDK.
func (l *Log) Lines(keys ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, e := range l.entries {
		if !strings.Contains(e.message, " ") || strings.HasSuffix(e.message, ".") {
			continue // from the SDK
		}
		line := e.message
		for i := 0; i+1 < len(e.keyvals); i += 2 {
			if key, ok := e.keyvals[i].(string); ok && slices.Contains(keys, key) {
				line += fmt.Sprintf(" %s=%v", key, e.keyvals[i+1])
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (l *Log) record(message string, keyvals []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, logEntry{message, keyvals})
}

// Debug drops the message: the test environment itself logs at that level.
func (l *Log) Debug(string, ...any) {}

// Info records the message.
func (l *Log) Info(message string, keyvals ...any) { l.record(message, keyvals) }

// Warn records the message.
func (l *Log) Warn(message string, keyvals ...any) { l.record(message, keyvals) }

// Error records the message.
func (l *Log) Error(message string, keyvals ...any) { l.record(message, keyvals) }

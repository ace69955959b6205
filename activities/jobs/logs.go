package jobs

import (
	"context"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/internal/temporal"
)

const (
	// logLines is how many of the last lines of a log are shown, logLimit how many bytes of these, and logRead how many are read at most.
	logLines = 20
	logLimit = 2000
	logRead  = 64 << 10
	// logTimeout is how long a kubelet may take to give a log: a failure is not held up by it.
	logTimeout = 5 * time.Second
)

// logHeading stands before the log in the error of a Job.
const logHeading = "; the end of its log:\n"

// WithoutLog is the message of a Job's error without the log, for where that is shown already.
func WithoutLog(message string) string {
	message, _, _ = strings.Cut(message, logHeading)
	return message
}

// withLog adds to the error of a Job that failed the end of the log of the container that failed last.
func (s jobSeen) withLog(ctx context.Context, err error) error {
	errType := temporal.ErrorType(err)
	if errType != temporal.ErrJobFailed && errType != temporal.ErrJobTimedOut {
		return err
	}
	pod, container := lastFailure(s.pods)
	if pod == nil {
		return err
	}
	message := temporal.ErrorMessage(err)
	log, unread := s.endOfLog(ctx, pod, container.Name)
	switch {
	case unread != nil:
		message += "; its log cannot be read: " + unread.Error()
	case log != "":
		message += logHeading + log
	}
	return temporal.Error(errType, message, nil, temporal.Blockers(err)...)
}

func (s jobSeen) endOfLog(ctx context.Context, pod *corev1.Pod, container string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	options := &corev1.PodLogOptions{Container: container, TailLines: new(int64(logLines)), LimitBytes: new(int64(logRead))}
	stream, err := s.cluster.Clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	log, err := io.ReadAll(io.LimitReader(stream, logRead))
	return lastBytes(strings.TrimSpace(string(log)), logLimit), err
}

// lastBytes shortens a text to its end.
func lastBytes(text string, limit int) string {
	if len(text) > limit {
		text = "..." + text[len(text)-limit:]
	}
	return strings.ToValidUTF8(text, "")
}

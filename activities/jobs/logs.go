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
	// logLines and logLimit limit the shown end of a log, in lines and bytes. logRead limits the bytes that are read.
	logLines = 20
	logLimit = 2000
	logRead  = 64 << 10
	// logTimeout limits the read of a log from the kubelet, so that it does not delay the report of a failure.
	logTimeout = 5 * time.Second
)

// logHeading precedes the log in the error of a Job.
const logHeading = "; the end of its log:\n"

// WithoutLog returns the message of a Job's error without the log.
func WithoutLog(message string) string {
	message, _, _ = strings.Cut(message, logHeading)
	return message
}

// withLog adds the end of the log to the error of a failed Job: that of the container that failed last.
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

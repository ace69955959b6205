package main

import (
	"fmt"
	"log/slog"
	"os"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLog gives what Temporal's server logs from warnings on to a slog.Logger. The rest is about its inside.
type serverLog struct{ to *slog.Logger }

var _ log.Logger = serverLog{}

func (serverLog) Debug(string, ...tag.Tag) {}
func (serverLog) Info(string, ...tag.Tag)  {}

func (l serverLog) Warn(message string, tags ...tag.Tag) { l.to.Warn(message, attributes(tags)...) }

func (l serverLog) Error(message string, tags ...tag.Tag) { l.to.Error(message, attributes(tags)...) }

func (l serverLog) DPanic(message string, tags ...tag.Tag) { l.to.Error(message, attributes(tags)...) }

func (l serverLog) Panic(message string, tags ...tag.Tag) {
	l.to.Error(message, attributes(tags)...)
	panic(message)
}

func (l serverLog) Fatal(message string, tags ...tag.Tag) {
	l.to.Error(message, attributes(tags)...)
	os.Exit(1)
}

func attributes(tags []tag.Tag) []any {
	var pairs []any
	for _, t := range tags {
		pairs = append(pairs, t.Key(), fmt.Sprint(t.Value()))
	}
	return pairs
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/observe"
)

// followed is a status that can be watched.
type followed interface {
	// lines describe the status without times, so that they change only with the status.
	lines(now time.Time) []statusLine
	// frame is the status as one block of text.
	frame(now time.Time, style frameStyle) string
}

// statusLine is a line about one part of a status. It is printed again when its text changes.
type statusLine struct{ about, text string }

// getStatus gets the status of a workflow with at most limit clusters; 0 is no limit. With errFromResult the status is valid.
type getStatus func(ctx context.Context, execution *client.WorkflowExecutionDescription, limit int) (followed, error)

// errEnough ends a watch that has seen the awaited status.
var errEnough = errors.New("seen enough")

// watch shows the status of a workflow until the workflow closes or enough returns true. It waits while no worker or no server answers.
func (c *cli) watch(ctx context.Context, s *server, target subject, get getStatus, enough func() bool) error {
	view := c.newView()
	show := func(ctx context.Context, execution *client.WorkflowExecutionDescription) error {
		status, err := get(ctx, execution, view.limit())
		switch {
		case errors.Is(err, observe.ErrTaskFails):
			view.note(observe.ErrTaskFails.Error())
			return nil
		case errors.Is(err, observe.ErrNoWorker):
			view.note(observe.ErrNoWorker.Error())
			return nil
		case errors.Is(err, errFromResult):
			view.note(err.Error())
		case err != nil:
			return err
		default:
			view.note("")
		}
		if err := view.show(status); err != nil {
			return err
		}
		if enough() {
			return errEnough
		}
		return nil
	}
	err := s.follow(ctx, target, show, view.tick)
	for ctx.Err() == nil && observe.Away(err) {
		view.note(fmt.Sprintf("Temporal does not answer; retrying: %s", err))
		_ = observe.Pause(ctx, askAgain) // following again returns the error of ctx
		err = s.follow(ctx, target, show, view.tick)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// askAgain is the pause after Temporal has not answered.
const askAgain = time.Second

// view shows a status as it changes.
type view interface {
	// limit is the number of clusters that the view can show; 0 is no limit.
	limit() int
	show(status followed) error
	// tick is called every second, for text that changes with time.
	tick()
	// note shows a message that is not part of the status; empty removes it.
	note(message string)
}

// newView returns the live view on a terminal, otherwise lines, or documents for -o json and yaml.
func (c *cli) newView() view {
	if !c.forPeople() {
		return &documentsView{cli: c}
	}
	if _, _, ok := c.terminal(); ok {
		return &liveView{cli: c, screen: screen{out: c.Out}}
	}
	return &linesView{cli: c, printed: map[string]string{}}
}

// documentsView writes every status as a line of JSON or a YAML document.
type documentsView struct {
	cli  *cli
	last string
}

func (v *documentsView) limit() int { return 0 }
func (v *documentsView) tick()      {}

func (v *documentsView) note(message string) {
	if message != "" {
		v.cli.warn("%s", message)
	}
}

func (v *documentsView) show(status followed) error {
	text, err := v.cli.document(status)
	if err != nil || text == v.last {
		return err
	}
	v.last = text
	_, err = fmt.Fprintln(v.cli.Out, text)
	return err
}

// document renders one of several results: as a line of JSON, or as a YAML document.
func (c *cli) document(object any) (string, error) {
	if c.output == formatYAML {
		text, err := yaml.Marshal(object)
		return "---\n" + string(text), err
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// linesView writes one line for every change.
type linesView struct {
	cli *cli
	// printed is the last line about each part.
	printed map[string]string
}

func (v *linesView) limit() int { return 0 }
func (v *linesView) tick()      {}

func (v *linesView) note(message string) {
	const about = "note"
	if message == "" {
		delete(v.printed, about) // it is printed again if it reappears
		return
	}
	_ = v.say(statusLine{about, message})
}

func (v *linesView) show(status followed) error {
	for _, line := range status.lines(v.cli.now()) {
		if err := v.say(line); err != nil {
			return err
		}
	}
	return nil
}

func (v *linesView) say(line statusLine) error {
	if v.printed[line.about] == line.text {
		return nil
	}
	v.printed[line.about] = line.text
	now := v.cli.now()
	return v.cli.say("%s  %s", clock(now, now), line.text)
}

// liveView keeps the status on a terminal up to date.
type liveView struct {
	cli    *cli
	screen screen
	status followed
	noted  string
}

// limit is the number of clusters that fit on the terminal.
func (v *liveView) limit() int {
	_, height, _ := v.cli.terminal()
	return clusterLines(height)
}

func (v *liveView) show(status followed) error {
	v.status, v.noted = status, ""
	v.tick()
	return nil
}

func (v *liveView) note(message string) {
	v.noted = message
	v.tick()
}

func (v *liveView) tick() {
	width, height, _ := v.cli.terminal()
	block := v.noted
	if v.status != nil {
		style := v.cli.style()
		style.height = height
		block = v.status.frame(v.cli.now(), style) + "\n" + v.noted
		block = style.wrap(v.cli.shown(block))
	}
	if block != "" {
		v.screen.draw(block, width, height)
	}
}
